// shoal bench prefill: when first tokens of recorded requests come, by each way to choose an
// instance, in fleets whose ranks step together.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/fleet/prefill_replay.h"
#include "tools/bench_command_line.h"
#include "tools/chosen_rows.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/flag_checks.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

struct BenchPrefillOptions {
  std::vector<std::string> traces;
  std::vector<std::string> policies;  // none: all
  std::vector<int> instances{8, 64};
  std::vector<double> utilisations{0.5, 0.7, 0.85, 0.95};
  int from_hour = 0;
  int to_hour = 0;  // 0: to the end
  int seeds = 5;
  std::int64_t cold = 0;   // rows of a cold prompt that every instance gets first; 0: none
  bool uncertain = false;  // old reports, wrong predictions
  int split_sync_us = 0;   // of ranks that share a prompt, a step; 0: none do
  bool cost = false;       // time of a placement instead
  bool json = false;
};

// What a balancer in a cluster knows and does not: reports 50 ms old, predictions 20 % wrong.
constexpr Nanos kStale = milliseconds(50);
constexpr double kWrong = 0.2;

constexpr PrefillSchedule::Limits kLimits{
    .quota = milliseconds(60), .kv_patience = hours(1'000), .least_quota = milliseconds(20)};

struct Case {
  std::string trace;
  const PrefillPolicyRow* policy = nullptr;
  int instances = 0;
  double utilisation = 0;
};

// Of one seed, or the mean of several.
struct Figures {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double shortest_p99 = 0;
  double imbalance = 0;
  double saturated = 0;

  void add(sim::PrefillFigures run, double part) {
    mean += part * run.ttft_ms.mean();
    p50 += part * run.ttft_ms.quantile(0.5);
    p99 += part * run.ttft_ms.quantile(0.99);
    shortest_p99 += part * run.shortest_ms.quantile(0.99);
    imbalance += part * run.imbalance;
    saturated += part * run.busy_imbalance;
  }
};

Figures measure(const std::vector<sim::PrefillRequest>& requests,
                const Case& c,
                const BenchPrefillOptions& o) {
  Figures figures;
  for (int seed = 1; seed <= o.seeds; ++seed) {
    sim::PrefillTrial trial{.instances = c.instances,
                            .utilisation = c.utilisation,
                            .policy = c.policy,
                            .seed = static_cast<std::uint64_t>(seed),
                            .limits = kLimits};
    if (o.uncertain) {
      trial.stale = kStale;
      trial.error = kWrong;
    }
    trial.cold_rows = o.cold;
    trial.limits.split_sync = std::chrono::microseconds(o.split_sync_us);
    figures.add(sim::replay_prefill(requests, trial), 1.0 / o.seeds);
  }
  return figures;
}

// The median over 101 rounds of 1,000 placements on half-loaded instances, ns each.
double placement_ns(const PrefillPolicyRow& row, int instances) {
  std::vector<std::vector<PrefillRankLoad>> ranks;
  std::vector<PrefillInstance> site;
  for (int i = 0; i < instances; ++i) {
    auto& of_instance = ranks.emplace_back();
    for (int r = 0; r < sim::kFleetRanks; ++r) {
      of_instance.push_back({r % 3, r * 700, milliseconds(r * 11 + i % 7)});
    }
    PrefillInstance instance{.alive = true};
    instance.queued = {milliseconds(i % 5), milliseconds(3), Nanos{0}, milliseconds(i % 2)};
    site.push_back(instance);
  }
  for (std::size_t i = 0; i < site.size(); ++i) {
    site[i].ranks = ranks[i];
  }
  const auto policy = row.make(1);
  sim::Samples rounds;
  for (int round = 0; round < 101; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t request = 0; request < 1'000; ++request) {
      policy->pick(site,
                   {.work = milliseconds(15),
                    .rows = 1'000,
                    .quota = kLimits.quota,
                    .waiting_limit = 1 << 20,
                    .tie = request});
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    rounds.add(took.count() / 1'000);
  }
  return rounds.quantile(0.5);
}

Result<void> bench_costs(const BenchPrefillOptions& o) {
  TRY(const auto rows, chosen_rows(prefill_policies(), o.policies, "--policies"));
  FigureTable table("prefill-cost", {"policy"}, {"instances", "placement_ns"});
  for (const PrefillPolicyRow* row : rows) {
    for (const int instances : o.instances) {
      table.add({std::string(row->name)},
                {static_cast<double>(instances), placement_ns(*row, instances)},
                0);
    }
  }
  table.print(o.json);
  return {};
}

Result<void> bench(const BenchPrefillOptions& o) {
  TRY(const auto rows, chosen_rows(prefill_policies(), o.policies, "--policies"));
  FigureTable table(
      "prefill",
      {"trace", "instances", "utilisation", "policy"},
      {"ttft_mean_ms", "p50_ms", "p99_ms", "shortest_p99_ms", "imbalance", "imbalance_saturated"});
  ProgressBar bar("bench prefill");
  const auto total = std::ssize(o.traces) * std::ssize(rows) * std::ssize(o.instances) *
                     std::ssize(o.utilisations);
  std::int64_t done = 0;
  for (const std::string& file : o.traces) {
    TRY(const auto trace, sim::read_trace(file, 0));
    const auto requests = sim::prefill_requests(
        trace, hours(o.from_hour), o.to_hour == 0 ? Nanos::max() : Nanos(hours(o.to_hour)));
    if (requests.empty()) {
      return fail(Code::kMisconfigured, file + ": no request arrives between --hours");
    }
    for (const int instances : o.instances) {
      for (const double utilisation : o.utilisations) {
        for (const PrefillPolicyRow* row : rows) {
          const Figures f = measure(requests, {file, row, instances, utilisation}, o);
          char load[16];
          std::snprintf(load, sizeof load, "%g", utilisation);
          table.add({std::filesystem::path(file).filename().string(),
                     std::to_string(instances),
                     load,
                     std::string(row->name)},
                    {f.mean, f.p50, f.p99, f.shortest_p99, f.imbalance, f.saturated},
                    3);
          bar.update(++done, total);
        }
      }
    }
  }
  table.print(o.json);
  return {};
}

int run_bench(const BenchPrefillOptions& options) {
  const Result<void> done = options.cost ? bench_costs(options) : bench(options);
  return done ? 0 : report(done.error());
}

}  // namespace

void add_bench_prefill(CLI::App& bench, int& status) {
  CLI::App* prefill = bench.add_subcommand(
      "prefill", "first tokens of recorded requests, by each way to choose a prefill instance");
  const auto options = std::make_shared<BenchPrefillOptions>();
  BenchPrefillOptions& o = *options;
  CLI::Option* cost =
      prefill->add_flag("--cost", o.cost, "measure the time of a placement instead");
  prefill->add_option("--trace", o.traces, "files of requests, see tests/sim/README.md")
      ->check(CLI::ExistingFile)
      ->excludes(cost);
  prefill->add_option("--policies", o.policies, "of these names; default: all")->delimiter(',');
  prefill->add_option("--instances", o.instances, "of 8 ranks each")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  prefill->add_option("--utilisation", o.utilisations, "share of the ranks' time")
      ->check(real(0.01, 10.0))
      ->capture_default_str();
  prefill->add_option("--from-hour", o.from_hour, "of the trace")->check(CLI::Range(0, 100000));
  prefill->add_option("--to-hour", o.to_hour, "of the trace; 0: its end")
      ->check(CLI::Range(0, 100000));
  prefill->add_option("--cold", o.cold, "tokens of a cold prompt that every instance gets first")
      ->check(CLI::Range(0, kMostTokens));
  prefill
      ->add_option("--split-sync-us",
                   o.split_sync_us,
                   "ranks that would wait share long prompts, for so long an exchange in each step; "
                   "0: none do")
      ->check(CLI::Range(0, 1'000'000));
  prefill->add_option("--seeds", o.seeds, "runs whose mean is taken")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  prefill->add_flag(
      "--uncertain", o.uncertain, "reports are 50 ms old, predictions 20 % wrong (lognormal)");
  prefill->add_flag("--json", o.json, "a line of JSON a row");
  prefill->footer(
      "Example:\n  shoal bench prefill --trace tests/sim/traces/chat-800.jsonl.gz --instances 8 "
      "--utilisation 0.95");
  prefill->callback([options, &status] {
    if (options->traces.empty() && !options->cost) {
      throw CLI::RequiredError("--trace or --cost");
    }
    status = run_bench(*options);
  });
}

}  // namespace shoal::tools
