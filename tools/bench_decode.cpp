// shoal bench decode: how evenly each policy loads the ranks of a decode group, with lengths of
// recorded requests; and what a placement costs.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/policy/draw.h"
#include "tests/sim/fleet/decode_replay.h"
#include "tools/bench_command_line.h"
#include "tools/bench_policy.h"
#include "tools/commands.h"
#include "tools/decision_cost.h"
#include "tools/figure_table.h"
#include "tools/flag_checks.h"
#include "tools/policy_rows.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

struct BenchDecodeOptions {
  BenchPolicyOptions policy;
  std::vector<std::int64_t> ranks{64};
  std::vector<std::int64_t> per_rank{93};
  std::vector<std::int64_t> contexts;  // in place of the recorded prompts; none: those
  int moves = 1;                       // a step, at most
};

// Of all seeds together.
struct Sums {
  std::vector<double> of = std::vector<double>(7);

  void add(sim::DecodeReplay& replay) {
    const double steps = static_cast<double>(replay.step_ms.size());
    const double figures[] = {replay.requests,
                              replay.kv,
                              replay.time,
                              replay.step_ms.mean(),
                              replay.step_ms.quantile(0.99),
                              replay.live,
                              static_cast<double>(replay.moves) / steps};
    for (std::size_t f = 0; f < of.size(); ++f) {
      of[f] += figures[f];
    }
  }

  std::vector<double> mean(int count) const {
    std::vector<double> all = of;
    for (double& figure : all) {
      figure /= count;
    }
    return all;
  }
};

class Bench {
 public:
  explicit Bench(const BenchDecodeOptions& options)
      : o_(options),
        rows_(chosen_rows(decode_policies(), options.policy.policies)),
        table_("decode",
               {"trace", "policy"},
               {"ranks",
                "a_rank",
                "requests_max_over_mean",
                "kv_max_over_mean",
                "time_max_over_mean",
                "step_ms",
                "step_p99_ms",
                "live",
                "moves_a_step"}) {}

  Result<void> replay() {
    ProgressBar bar("decode");
    const auto total = std::ssize(o_.policy.traces) * std::ssize(o_.ranks) *
                       std::ssize(o_.per_rank) * std::ssize(rows_);
    for (const std::string& file : o_.policy.traces) {
      TRY(const auto requests, sim::read_trace(file, o_.policy.requests));
      for (const std::int64_t ranks : o_.ranks) {
        for (const std::int64_t per_rank : o_.per_rank) {
          for (const DecodeRow& row : rows_) {
            add(file, requests, {.ranks = ranks, .per_rank = per_rank}, row);
            bar.update(++done_, total);
          }
        }
      }
    }
    return {};
  }

  void print() const { table_.print(o_.policy.json); }

 private:
  void add(const std::string& file,
           std::span<const sim::TraceRequest> requests,
           sim::DecodeFleet fleet,
           const DecodeRow& row) {
    Sums sums;
    for (int seed = 1; seed <= o_.policy.seeds; ++seed) {
      fleet.seed = static_cast<std::uint64_t>(seed);
      fleet.moves_a_step = o_.moves;
      const auto lengths = sim::decode_lengths(requests, o_.contexts, fleet.seed);
      auto replay = sim::replay_decode(lengths, fleet, row);
      sums.add(replay);
    }
    std::vector<double> numbers{static_cast<double>(fleet.ranks),
                                static_cast<double>(fleet.per_rank)};
    const auto means = sums.mean(o_.policy.seeds);
    numbers.insert(numbers.end(), means.begin(), means.end());
    table_.add(
        {std::filesystem::path(file).filename().string(), std::string(row.name)}, numbers, 4);
  }

  const BenchDecodeOptions& o_;
  std::vector<DecodeRow> rows_;
  FigureTable table_;
  std::int64_t done_ = 0;
};

// A group about as full as it is in balance.
class FullGroup {
 public:
  explicit FullGroup(std::int64_t ranks) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      ranks_.push_back({.alive = true, .room = {1'000'000, 1'000}, .blocks = 1'000'000});
      load(ranks_.back());
    }
  }

  // Each placement changes a rank.
  double placement_ns(const DecodeRow& row) {
    const auto policy = row.make(cost_, 1);
    return decision_ns([&] {
      const DecodeNeed need{.device = {}, .blocks = 100, .tokens = 100'000, .tie = draw_.next()};
      load(ranks_[policy->place(ranks_, need, kBatch).choice.value().rank]);
    });
  }

  double move_ns() {
    std::vector<DecodeAnswer> answers;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::int64_t a = 0; a < ranks_[r].live; ++a) {
        answers.push_back({.rank = r, .tokens = 100'000, .steps = 100, .blocks = 100});
      }
    }
    return decision_ns([&] { pick_move(ranks_, answers, cost_, kBatch, fleet_.move); });
  }

 private:
  static constexpr std::int64_t kBatch = 1'000;

  void load(DecodeRank& rank) {
    rank.live = static_cast<std::int64_t>(80 + draw_.below(20));
    rank.kv_tokens = static_cast<std::int64_t>(draw_.below(10'000'000));
  }

  sim::DecodeFleet fleet_;
  CostModel cost_{fleet_.cost};
  Draw draw_{1};
  std::vector<DecodeRank> ranks_;
};

int print_costs(const BenchDecodeOptions& o) {
  FigureTable table("decode-cost", {"policy"}, {"ranks", "placement_ns", "move_ns"});
  for (const DecodeRow& row : chosen_rows(decode_policies(), o.policy.policies)) {
    for (const std::int64_t ranks : o.ranks) {
      FullGroup group(ranks);
      table.add(
          {std::string(row.name)},
          {static_cast<double>(ranks), group.placement_ns(row), row.moves ? group.move_ns() : 0},
          0);
    }
  }
  table.print(o.policy.json);
  return 0;
}

int run_bench(const BenchDecodeOptions& options) {
  if (options.policy.cost) {
    return print_costs(options);
  }
  Bench bench(options);
  if (const auto done = bench.replay(); !done) {
    return report(done.error());
  }
  bench.print();
  return 0;
}

}  // namespace

void add_bench_decode(CLI::App& bench, int& status) {
  CLI::App* decode =
      bench.add_subcommand("decode", "policies that place answers on the ranks of a decode group");
  const auto options = std::make_shared<BenchDecodeOptions>();
  BenchDecodeOptions& o = *options;
  add_policy_options(*decode, o.policy, row_names(decode_policies()));
  decode->add_option("--ranks", o.ranks, "ranks that step together")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  decode->add_option("--per-rank", o.per_rank, "answers a rank, were all ranks equal")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  decode->add_option("--contexts", o.contexts, "prompts of these lengths in place of the recorded")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostTokens));
  decode->add_option("--moves", o.moves, "answers that may change ranks in a step, if a row moves")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  decode->footer(
      "Examples:\n  shoal bench decode --trace tests/sim/traces/agentic-600.jsonl.gz --per-rank "
      "32,93\n"
      "  shoal bench decode --cost --ranks 64,128");
  decode->callback([options, &status] {
    need_trace(options->policy);
    status = run_bench(*options);
  });
}

}  // namespace shoal::tools
