// shoal plan: the layouts that serve a load and why others do not, what the fleet costs and earns,
// and what is published of fleets beside what the planner says.
#include <algorithm>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "actors/policy/fleet_economics.h"
#include "actors/policy/fleet_plan.h"
#include "actors/policy/fleet_validation.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/plan_file.h"

namespace shoal::tools {
namespace {

constexpr std::size_t kShown = 6;  // layouts of a stage, unless all are asked for

double ms(Nanos time) {
  return static_cast<double>(time.count()) / 1e6;
}

std::string text_of(const char* format, double a, double b) {
  char text[128];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}

std::string why(const PlanStage& stage) {
  const double needed = stage.needed;
  const double there = stage.available;
  switch (stage.verdict) {
    case PlanVerdict::kBest:
      return "";
    case PlanVerdict::kCostlier:
      return needed > there ? text_of("%.0f GPUs, the best %.0f", needed, there)
                            : "as many GPUs, in larger groups or split ranks";
    case PlanVerdict::kWeights:
      return text_of("%.1f GB, a GPU has %.1f", needed / 1e9, there / 1e9);
    case PlanVerdict::kHostTables:
      return text_of("%.0f GB, a host has %.0f", needed / 1e9, there / 1e9);
    case PlanVerdict::kUserRate:
      return text_of("%.0f tokens/s asked, alone %.1f", needed, there);
    case PlanVerdict::kFirstToken:
      return text_of("%.0f ms, asked %.0f", needed / 1e6, there / 1e6);
    case PlanVerdict::kFailureDomain:
      return text_of("a failure in %.0f h asked, %.0f", needed, there);
    case PlanVerdict::kReads:
      return text_of("%.1f GB/s a node, its link %.1f", needed / 1e9, there / 1e9);
    case PlanVerdict::kTooManyGpus:
      return text_of("%.0f GPUs, at most %.0f", needed, there);
  }
  return "";
}

// The best first, then by GPUs; those without any in their own order.
std::vector<PlanStage> in_order(std::vector<PlanStage> stages) {
  std::stable_sort(stages.begin(), stages.end(), [](const PlanStage& a, const PlanStage& b) {
    const auto key = [](const PlanStage& s) {
      return std::tuple(s.verdict != PlanVerdict::kBest, s.gpus == 0, s.gpus);
    };
    return key(a) < key(b);
  });
  return stages;
}

void add_layouts(FigureTable& table,
                 const char* name,
                 const std::vector<PlanStage>& stages,
                 bool all) {
  std::size_t shown = 0;
  for (const PlanStage& stage : in_order(stages)) {
    if (!all && stage.gpus > 0 && ++shown > kShown) {
      continue;
    }
    table.add({name,
               "EP" + std::to_string(stage.layout.ep) + " DP" + std::to_string(stage.layout.dp),
               std::string(name_of(stage.verdict)),
               why(stage)},
              {static_cast<double>(stage.gpus),
               stage.gpu_rate,
               stage.full_rate,
               stage.user_rate,
               stage.streams,
               static_cast<double>(stage.drafts),
               stage.rows,
               ms(stage.first_token),
               ms(stage.step.total),
               ms(stage.step.attention),
               ms(stage.step.experts),
               ms(stage.step.links),
               100 * (stage.step.moe_lb - 1),
               stage.weight_bytes / 1e9});
  }
}

void print_layouts(const FleetPlan& plan, const PlanOptions& o) {
  FigureTable table("plan-layouts",
                    {"stage", "layout", "verdict", "why"},
                    {"gpus",
                     "tokens_s_gpu",
                     "never_idle_tokens_s_gpu",
                     "user_tokens_s",
                     "streams",
                     "drafts",
                     "chunk_tokens",
                     "ttft_ms",
                     "step_ms",
                     "attention_ms",
                     "experts_ms",
                     "links_ms",
                     "imbalance_pct",
                     "weights_gb"});
  add_layouts(table, "prefill", plan.prefill, o.all);
  add_layouts(table, "decode", plan.decode, o.all);
  table.print(o.json);
}

void print_fleet(const FleetPlan& plan,
                 const FleetCost& cost,
                 const PlanMachine& machine,
                 bool json) {
  FigureTable table("plan-fleet", {"figure", "unit"}, {"value"});
  const auto gpus = [&table](const char* name, std::int64_t count) {
    table.add({name, "GPUs"}, {static_cast<double>(count)}, 0);
  };
  gpus("prefill", plan.prefill[*plan.best_prefill].gpus);
  gpus("decode", plan.decode[*plan.best_decode].gpus);
  gpus("vision", plan.vision_gpus);
  gpus("spare", plan.spare_gpus);
  gpus("fleet", plan.gpus);
  table.add({"cost of a GPU", "USD/hour"}, {machine.gpu_hour_usd}, 2);
  table.add({"cost of the fleet", "USD/day"}, {cost.usd_per_day}, 0);
  table.add({"cost, input and output", "USD/M tokens"}, {cost.per_million}, 5);
  table.add({"cost, prefill of uncached input", "USD/M tokens"}, {cost.per_million_uncached}, 4);
  table.add({"cost, decode of output", "USD/M tokens"}, {cost.per_million_output}, 4);
  table.add({"income: hits", "USD/day"}, {cost.revenue.hit}, 0);
  table.add({"income: misses", "USD/day"}, {cost.revenue.miss}, 0);
  table.add({"income: output", "USD/day"}, {cost.revenue.output}, 0);
  table.add({"income of a GPU", "USD/hour"}, {cost.gpu_hour}, 2);
  table.add({"income that GPUs do not cost", "%"}, {100 * cost.margin}, 1);
  table.print(json);
}

void take_flags(const PlanOptions& o, PlannedLoad& load) {
  const auto take = [](double flag, double& value) { value = flag > 0 ? flag : value; };
  take(o.input_tokens, load.workload.input_tokens);
  take(o.output_tokens, load.workload.output_tokens);
  take(o.prompt_tokens, load.workload.prompt_tokens);
  take(o.user_rate, load.slo.user_rate);
  load.workload.longest_tokens =
      std::max(load.workload.longest_tokens, load.workload.prompt_tokens);
  if (o.hit_share >= 0) {
    load.workload.hit_share = o.hit_share;
  }
  if (o.ttft_ms > 0) {
    load.slo.first_token = std::chrono::milliseconds(o.ttft_ms);
  }
}

Result<void> print_plan(const PlanOptions& o, const PlanMachine& machine, const PlannedLoad& load) {
  const FleetPlan plan = plan_fleet(v41_flash(), machine, load.workload, load.slo);
  print_layouts(plan, o);
  if (plan.gpus == 0) {
    return fail(Code::kMisconfigured,
                std::string("no layout of ") + (plan.best_prefill ? "decode" : "prefill") +
                    " serves this load on this machine: see `why`; relax the promise or take "
                    "another machine");
  }
  if (!o.json) {
    std::puts("");
  }
  print_fleet(plan, cost_of(plan, machine, load.workload, load.prices), machine, o.json);
  return {};
}

void print_economics(bool json) {
  FigureTable table("plan-economics",
                    {"decode_tokens_s_gpu", "prefill_per_decode", "hit_pct"},
                    {"output_T_tokens_day",
                     "output_per_input_pct",
                     "gpus",
                     "income_musd_day",
                     "hit_musd_day",
                     "miss_musd_day",
                     "output_musd_day",
                     "uncached_k_tokens_s_gpu",
                     "logical_k_tokens_s_gpu"});
  for (const FleetIncome& income : published_incomes()) {
    if (const auto day = solve_day(income)) {
      table.add({text_of("%.0f", income.decode_rate, 0),
                 text_of("%.1f", income.prefill_per_decode, 0),
                 text_of("%.0f", 100 * income.hit_share, 0)},
                {day->output / 1e12,
                 100 * day->output / day->input,
                 day->gpus,
                 day->revenue.total() / 1e6,
                 day->revenue.hit / 1e6,
                 day->revenue.miss / 1e6,
                 day->revenue.output / 1e6,
                 day->uncached_rate / 1e3,
                 day->logical_rate / 1e3},
                2);
    }
  }
  table.print(json);
  if (!json) {
    std::puts("");
  }
  constexpr double kPeakHours = 35;  // a week, at twice the price
  const FleetIncome base;
  FigureTable rest("plan-income", {"figure", "unit"}, {"value"});
  rest.add({"income of a GPU with peak prices", "USD/hour"},
           {with_peak_prices(base.gpu_hour, kPeakHours)},
           1);
  for (const double cost : {5.0, 7.5, 10.0}) {
    rest.add({text_of("left at a cost of %.1f USD/hour", cost, 0), "%"},
             {100 * margin(base.gpu_hour, cost)},
             1);
  }
  rest.print(json);
}

void print_storage(const PlannedLoad& load, const PlanMachine& machine, bool json) {
  const FleetPlan plan = plan_fleet(v41_flash(), machine, load.workload, load.slo);
  StorageInputs inputs;
  inputs.input = load.workload.input_tokens;
  inputs.output = load.workload.output_tokens;
  inputs.hit_share = load.workload.hit_share;
  inputs.request_tokens = load.workload.prompt_tokens;
  inputs.gpus_per_node = machine.node_gpus;
  if (plan.best_prefill) {
    inputs.prefill_gpus = static_cast<double>(plan.prefill[*plan.best_prefill].gpus);
  }
  const StorageNeeds s = storage_of(inputs);
  FigureTable table("plan-storage", {"figure", "unit"}, {"value"});
  table.add({"read, mean", "TB/s"}, {s.read_rate / 1e12}, 3);
  table.add({"10 TB/s over that", "times"}, {s.headroom}, 1);
  table.add({"blocks read, mean", "M/s"}, {s.blocks_read / 1e6}, 2);
  table.add({"blocks read at 10 TB/s", "M/s"}, {s.peak_blocks / 1e6}, 1);
  table.add({"written", "PB/day"}, {s.written_a_day / 1e15}, 3);
  table.add({"written", "GB/s"}, {s.write_rate / 1e9}, 2);
  table.add({"blocks written", "k/s"}, {s.blocks_written / 1e3}, 1);
  table.add({"live, kept 3 days", "PB"}, {s.live_short / 1e15}, 2);
  table.add({"live, kept 7 days", "PB"}, {s.live_long / 1e15}, 2);
  table.add({"100 PiB last, three replicas", "days"}, {s.days_with_three}, 1);
  table.add({"100 PiB last, two replicas", "days"}, {s.days_with_two}, 1);
  table.add({"live blocks, 3 days", "G"}, {s.blocks_short / 1e9}, 2);
  table.add({"live blocks, 7 days", "G"}, {s.blocks_long / 1e9}, 2);
  table.add({"index, 3 days", "GB"}, {s.index_short / 1e9}, 1);
  table.add({"index, 7 days", "GB"}, {s.index_long / 1e9}, 1);
  table.add({"nodes of 224 TiB in 100 PiB", "nodes"}, {s.nodes}, 0);
  table.add({"of each at 10 TB/s", "GB/s"}, {s.node_rate / 1e9}, 1);
  table.add({"of its link", "%"}, {100 * s.link_share}, 0);
  table.add({"read by a prefill GPU", "GB/s"}, {s.read_per_gpu / 1e9}, 2);
  table.add({"read by a prefill node", "GB/s"}, {s.read_per_node / 1e9}, 2);
  table.add({"requests", "/s"}, {s.requests}, 0);
  table.add({"rings of 180 s", "GB"}, {s.rings / 1e9}, 1);
  table.add({"rings of a prefill node", "GB"}, {s.rings_per_node / 1e9}, 2);
  table.add({"replay at 2 % lost rings", "% of prefill"}, {100 * s.replay_share}, 3);
  table.add({"replay at every turn", "% of prefill"}, {100 * s.replay_all_share}, 2);
  table.print(json);
}

Result<void> print_validation(const PlanMachine& machine, bool json) {
  TRY(const PlanMachine earlier, read_machine("h800-hgx"));
  FigureTable table(
      "plan-validation", {"quantity", "unit", "verdict"}, {"target", "ours", "tolerance_pct"});
  for (const PlanCheck& row : check_against_published(machine, earlier)) {
    const std::string verdict = row.good()    ? row.at_most ? "ok: a limit" : "ok"
                                : row.at_most ? "above: " + std::string(row.why)
                                              : "off: " + std::string(row.why);
    table.add({std::string(row.quantity), std::string(row.unit), verdict},
              {row.target, row.ours, 100 * row.tolerance},
              row.target < 100 ? 3 : 0);
  }
  table.print(json);
  if (!json) {
    std::string rest;
    for (const std::string_view quantity : left_to_simulation()) {
      rest += (rest.empty() ? "" : "; ") + std::string(quantity);
    }
    std::printf("\nOnly a simulated fleet can tell: %s.\n", rest.c_str());
  }
  return {};
}

Result<void> plan(const PlanOptions& o) {
  if (o.economics) {
    print_economics(o.json);
    return {};
  }
  TRY(const PlanMachine machine, read_machine(o.machine));
  TRY(PlannedLoad load, read_workload(o.workload));
  take_flags(o, load);
  if (const auto wrong = validate_plan(machine, load.workload, load.slo); !wrong.empty()) {
    return fail(Code::kMisconfigured, o.machine + ", " + o.workload + ": " + std::string(wrong));
  }
  if (o.validate) {
    return print_validation(machine, o.json);
  }
  if (o.storage) {
    print_storage(load, machine, o.json);
    return {};
  }
  return print_plan(o, machine, load);
}

}  // namespace

int run_plan(const PlanOptions& options) {
  const Result<void> done = plan(options);
  return done ? 0 : report(done.error());
}

}  // namespace shoal::tools
