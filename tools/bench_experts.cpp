// shoal bench experts: how evenly the ranks of a group are loaded, by each way to place experts
// and to split their tokens over replicas, and what the placements cost in moves.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/expert_window.h"
#include "tests/sim/fleet/expert_replay.h"
#include "tools/bench_command_line.h"
#include "tools/chosen_rows.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/process_ports.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

using sim::ExpertLoads;

struct BenchExpertsOptions {
  std::string windows;  // a file of expert loads; none: drawn ones
  std::string steps;
  std::string stage = "decode";       // of those files
  std::vector<std::string> policies;  // none: all
  std::vector<std::string> splits;    // none: all
  int seeds = 5;                      // of drawn loads
  bool cost = false;                  // time of plans and splits instead
  bool json = false;
};

// A group: its ranks, and how long a step takes (the report's 20 ms; 8,192 tokens a rank at 40 % of
// 1 PFLOP/s).
struct Group {
  const char* name;
  bool decodes;
  std::int32_t ranks;
  std::int64_t window_steps;
  double step_s;
};

constexpr Group kGroups[] = {{"EP8", false, 8, 100, 0.330},
                             {"EP64", true, 64, 500, 0.020},
                             {"EP128", true, 128, 500, 0.020}};
constexpr std::int32_t kSpare[] = {0, 1, 4};  // slots a rank
constexpr std::int32_t kRecordedRanks = 64;   // of decode; twice as many take two steps in one

struct Rows {
  std::vector<const ExpertPlanRow*> planners;
  std::vector<const ExpertSplitRow*> splits;
};

Result<Rows> rows_of(const BenchExpertsOptions& o) {
  Rows rows;
  TRY(rows.planners, chosen_rows(expert_planners(), o.policies, "--policies"));
  TRY(rows.splits, chosen_rows(expert_splits(), o.splits, "--splits"));
  return rows;
}

// The means over seeds; what some seeds do not have, over the others.
class Figures {
 public:
  void add(sim::ExpertReplay& run) {
    add(0, run.windows, false);
    add(1, run.steps, true);
    add(3, run.changed, true);
    add(5, run.reacted, true);
    add(7, run.next, false);
    add(8, 100 * run.moved);
    add(9, 100 * run.moved_inside);
    add(10, run.bytes_an_hour / 1e9);
  }

  std::vector<double> means() const {
    std::vector<double> means;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      means.push_back(counts_[i] > 0 ? sums_[i] / counts_[i] : 0);
    }
    return means;
  }

 private:
  void add(std::size_t column, double value) {
    sums_[column] += value;
    counts_[column] += 1;
  }

  void add(std::size_t column, sim::Samples& samples, bool with_p99) {
    if (samples.size() == 0) {
      return;
    }
    add(column, samples.mean());
    if (with_p99) {
      add(column + 1, samples.quantile(0.99));
    }
  }

  std::array<double, 11> sums_{};
  std::array<double, 11> counts_{};
};

const std::vector<std::string> kColumns = {"window",
                                           "step",
                                           "step_p99",
                                           "changed",
                                           "changed_p99",
                                           "reacted",
                                           "reacted_p99",
                                           "next_window",
                                           "moved_percent",
                                           "inside_percent",
                                           "gb_an_hour"};

// Of one stage, one entry a seed.
Result<std::vector<ExpertLoads>> loads_of(bool decodes, const BenchExpertsOptions& o) {
  std::vector<ExpertLoads> loads;
  if (!o.windows.empty()) {
    if (decodes == (o.stage == "decode")) {
      TRY(loads.emplace_back(), sim::read_expert_loads(o.windows, o.steps));
    }
    return loads;
  }
  const sim::ExpertLoadModel model = decodes ? sim::decode_loads() : sim::prefill_loads();
  for (int seed = 1; seed <= o.seeds; ++seed) {
    loads.push_back(sim::draw_expert_loads(model, static_cast<std::uint64_t>(seed)));
  }
  return loads;
}

ExpertShape shape_of(const ExpertLoads& loads, std::int32_t ranks, std::int32_t spare) {
  return {loads.experts, ranks, (loads.experts + ranks - 1) / ranks + spare, 8};
}

struct Bench {
  const BenchExpertsOptions& options;
  Rows rows;
  FigureTable table{"experts", {"group", "placement", "split"}, kColumns};
  ProgressBar bar{"bench experts"};
  std::int64_t done = 0;

  std::int64_t total() const {
    return std::ssize(kGroups) * std::ssize(kSpare) * std::ssize(rows.planners) *
           std::ssize(rows.splits);
  }

  void measure(const Group& group, const std::vector<ExpertLoads>& loads, std::int32_t spare) {
    for (const ExpertPlanRow* planner : rows.planners) {
      for (const ExpertSplitRow* split : rows.splits) {
        Figures figures;
        for (const ExpertLoads& of_seed : loads) {
          sim::ExpertReplay run =
              sim::replay_experts(of_seed,
                                  {.shape = shape_of(of_seed, group.ranks, spare),
                                   .planner = planner,
                                   .split = split,
                                   .window_steps = group.window_steps,
                                   .step_s = group.step_s});
          figures.add(run);
        }
        table.add({std::string(group.name) + "+" + std::to_string(spare),
                   std::string(planner->name),
                   std::string(split->name)},
                  figures.means(),
                  3);
        bar.update(++done, total());
      }
    }
  }
};

Result<void> bench(const BenchExpertsOptions& o) {
  TRY(Rows rows, rows_of(o));
  Bench bench{.options = o, .rows = std::move(rows)};
  for (const Group& group : kGroups) {
    TRY(std::vector<ExpertLoads> loads, loads_of(group.decodes, o));
    if (loads.empty()) {
      continue;
    }
    for (ExpertLoads& of_seed : loads) {
      if (group.ranks == 2 * kRecordedRanks) {
        of_seed = sim::in_pairs(of_seed);
      }
    }
    for (const std::int32_t spare : kSpare) {
      bench.measure(group, loads, spare);
    }
  }
  bench.table.print(o.json);
  return {};
}

double us_since(Instant began) {
  return std::chrono::duration<double, std::micro>(monotonic_now() - began).count();
}

// Of all layers, window by window, each from the placements before.
sim::Samples plan_times(const ExpertPlanRow& row, const ExpertLoads& loads) {
  const auto planner = row.make({.shape = shape_of(loads, kRecordedRanks, 1),
                                 .layers = loads.layers,
                                 .costs = {.steps = 500},
                                 .seed = 1});
  std::vector<SlotExperts> current;
  sim::Samples times;
  for (const auto& counts : loads.windows) {
    planner->saw_window(counts);
    const Instant began = monotonic_now();
    auto plans = planner->plan(current);
    times.add(us_since(began));
    current.clear();
    for (ExpertPlan& plan : plans) {
      current.push_back(std::move(plan.expert_at));
    }
  }
  return times;
}

// Of a node's balancer: totals of all layers from one window to the next.
sim::Samples count_times(const ExpertLoads& loads) {
  std::vector<ExpertTraffic> now(static_cast<std::size_t>(loads.layers));
  for (ExpertTraffic& layer : now) {
    layer.experts.resize(static_cast<std::size_t>(loads.experts));
    layer.ranks.resize(kRecordedRanks);
  }
  std::vector<ExpertTraffic> before = now;
  sim::Samples times;
  for (const auto& counts : loads.windows) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      now[i / static_cast<std::size_t>(loads.experts)]
          .experts[i % static_cast<std::size_t>(loads.experts)] += counts[i];
    }
    const Instant began = monotonic_now();
    const ExpertWindow window = window_between(before, now);
    before = now;
    times.add(us_since(began));
  }
  return times;
}

// Of a layer, over recorded steps.
sim::Samples split_times(const ExpertSplitRow& row, const ExpertLoads& loads) {
  const ExpertShape shape = shape_of(loads, kRecordedRanks, 1);
  const auto planner = expert_planners().front().make({.shape = shape, .layers = loads.layers});
  planner->saw_window(loads.windows.front());
  const auto plans = planner->plan({});
  const std::vector<double> forecast = planner->loads();
  std::vector<std::int32_t> tokens(shape.all_slots());
  sim::Samples times;
  for (std::int32_t layer = 0; layer < loads.layers; ++layer) {
    const std::size_t first = static_cast<std::size_t>(layer) * loads.experts;
    const auto split =
        row.make(shape, plans[layer].expert_at, std::span(forecast).subspan(first, loads.experts));
    for (const auto& step : loads.steps.begin()->second) {
      const std::vector<std::int32_t> counts(
          step.begin() + static_cast<std::ptrdiff_t>(first),
          step.begin() + static_cast<std::ptrdiff_t>(first) + loads.experts);
      const Instant began = monotonic_now();
      split->split(counts, tokens);
      times.add(us_since(began));
    }
  }
  return times;
}

Result<void> bench_costs(const BenchExpertsOptions& o) {
  TRY(const Rows rows, rows_of(o));
  const ExpertLoads loads = sim::draw_expert_loads(sim::decode_loads(), 1);
  FigureTable table("experts-cost", {"what", "row"}, {"median_us", "p99_us"});
  for (const ExpertPlanRow* row : rows.planners) {
    sim::Samples times = plan_times(*row, loads);
    table.add({"plan of 40 x 448 slots", std::string(row->name)},
              {times.quantile(0.5), times.quantile(0.99)});
  }
  sim::Samples counted = count_times(loads);
  table.add({"count of a window of 40 layers", "-"},
            {counted.quantile(0.5), counted.quantile(0.99)});
  for (const ExpertSplitRow* row : rows.splits) {
    sim::Samples times = split_times(*row, loads);
    table.add({"split of a layer's step", std::string(row->name)},
              {times.quantile(0.5), times.quantile(0.99)},
              2);
  }
  table.print(o.json);
  return {};
}

int run_bench(const BenchExpertsOptions& options) {
  const Result<void> done = options.cost ? bench_costs(options) : bench(options);
  return done ? 0 : report(done.error());
}

}  // namespace

void add_bench_experts(CLI::App& bench, int& status) {
  CLI::App* experts = bench.add_subcommand(
      "experts", "load of ranks by each way to place experts and to split their tokens");
  const auto options = std::make_shared<BenchExpertsOptions>();
  BenchExpertsOptions& o = *options;
  CLI::Option* windows =
      experts->add_option("--windows", o.windows, "file of loads, see tests/sim/README.md")
          ->check(CLI::ExistingFile);
  CLI::Option* steps = experts->add_option("--steps", o.steps, "file of single steps of them")
                           ->check(CLI::ExistingFile)
                           ->needs(windows);
  windows->needs(steps);
  experts->add_option("--stage", o.stage, "that was recorded: groups of 64 and 128, or of 8")
      ->check(CLI::IsMember({"decode", "prefill"}))
      ->needs(windows)
      ->capture_default_str();
  experts->add_option("--policies", o.policies, "placements of these names; default: all")
      ->delimiter(',');
  experts->add_option("--splits", o.splits, "of these names; default: all")->delimiter(',');
  experts->add_option("--seeds", o.seeds, "drawn loads whose mean is taken")
      ->check(CLI::Range(1, 1000))
      ->excludes(windows)
      ->capture_default_str();
  experts->add_flag("--cost", o.cost, "measure the time of plans and splits instead")
      ->excludes(windows);
  experts->add_flag("--json", o.json, "a line of JSON a row");
  experts->footer(
      "Figures of what did not happen (no change of domain) are 0.\n\nExample:\n  shoal bench "
      "experts --policies ours,eplb --splits fill,even");
  experts->callback([options, &status] { status = run_bench(*options); });
}

}  // namespace shoal::tools
