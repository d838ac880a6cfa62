// shoal bench verify: tokens a second of a decode group under each way of choosing how many drafts
// a step verifies, and what the choice costs.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/fleet/samples.h"
#include "tests/sim/fleet/verify_replay.h"
#include "tools/bench_command_line.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/flag_checks.h"
#include "tools/policy_rows.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

using sim::DraftSource;
using sim::Samples;
using sim::VerifyFigures;
using sim::VerifyLoad;

struct BenchVerifyOptions {
  std::vector<std::string> policies;  // empty: all
  int seeds = 5;
  int ranks = 8;
  int requests = 93;  // of a rank
  double spread = 0;  // of them over the ranks
  int grain = 1;      // steps are padded to a multiple of it
  int steps = 200;
  double head = 1;  // what the logits of the true chances are multiplied by
  bool calibrates = false;
  bool cost = false;  // time of a decision instead
  bool json = false;
};

// Variable over fixed time of a step with all drafts, and how sharp the head is.
constexpr double kVariable[] = {0.25, 0.5, 1, 2};
constexpr double kConcentration[] = {1, 2, 4};

VerifyLoad load_of(const BenchVerifyOptions& o, double variable) {
  VerifyLoad load;
  load.ranks = o.ranks;
  load.requests = o.requests;
  load.spread = o.spread;
  load.variable = variable;
  load.grain = o.grain;
  load.calibrates = o.calibrates;
  load.steps = o.steps;
  return load;
}

const VerifyRow& row_of(const std::string& name) {
  const auto rows = verify_policies();
  return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
}

VerifyFigures replay(const std::string& policy, const VerifyLoad& load, const DraftSource& source) {
  return sim::replay_verify(*row_of(policy).make(), load, source);
}

// Of all seeds, percent.
struct Gains {
  Samples over_five;
  Samples over_best_fixed;
  Samples drafts;
};

std::string short_text(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::vector<Gains> measure(const BenchVerifyOptions& o,
                           const VerifyLoad& load,
                           double concentration) {
  std::vector<Gains> gains(o.policies.size());
  for (int seed = 1; seed <= o.seeds; ++seed) {
    const DraftSource source(concentration, static_cast<std::uint64_t>(seed), o.head);
    const double five = replay("fixed5", load, source).tokens_per_s;
    const double best = replay("best_fixed", load, source).tokens_per_s;
    for (std::size_t p = 0; p < o.policies.size(); ++p) {
      const VerifyFigures figures = replay(o.policies[p], load, source);
      gains[p].over_five.add(100 * (figures.tokens_per_s / five - 1));
      gains[p].over_best_fixed.add(100 * (figures.tokens_per_s / best - 1));
      gains[p].drafts.add(figures.drafts);
    }
  }
  return gains;
}

void bench_gains(const BenchVerifyOptions& o) {
  FigureTable table("verify",
                    {"variable", "concentration", "policy"},
                    {"over_fixed5_%", "worst_seed_%", "over_best_fixed_%", "drafts"});
  ProgressBar bar("verify");
  std::int64_t done = 0;
  for (const double variable : kVariable) {
    for (const double concentration : kConcentration) {
      auto gains = measure(o, load_of(o, variable), concentration);
      for (std::size_t p = 0; p < o.policies.size(); ++p) {
        table.add({short_text(variable), short_text(concentration), o.policies[p]},
                  {gains[p].over_five.mean(),
                   gains[p].over_five.quantile(0),
                   gains[p].over_best_fixed.mean(),
                   gains[p].drafts.mean()},
                  2);
      }
      bar.update(++done, std::ssize(kVariable) * std::ssize(kConcentration));
    }
  }
  table.print(o.json);
}

// Median of many, microseconds.
template <class Run>
double median_us(int times, Run run) {
  Samples samples;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    samples.add(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                    .count());
  }
  return samples.quantile(0.5);
}

DraftHistogram histogram_of(const std::vector<DraftedRequest>& requests) {
  DraftHistogram histogram;
  for (const DraftedRequest& request : requests) {
    histogram.add(request);
  }
  return histogram;
}

// What a rank does at each step (histogram, fill), and the leader for all ranks (plan).
void bench_cost(const BenchVerifyOptions& o) {
  constexpr int kTimes = 2'000;
  const VerifyLoad load = load_of(o, 1);
  const VerifyCosts costs = sim::verify_costs(load);
  DraftSource source(2, 1);
  std::vector<DraftHistogram> histograms;
  for (int rank = 0; rank < o.ranks; ++rank) {
    histograms.push_back(histogram_of(source.draw(requests_of(load, rank)).requests));
  }
  const std::vector<DraftedRequest> requests = source.draw(o.requests).requests;
  std::vector<std::uint8_t> lengths(requests.size());
  const double histogram_us =
      median_us(kTimes, [&] { histograms.back() = histogram_of(requests); });
  FigureTable table(
      "verify-cost", {"policy"}, {"ranks", "requests", "histogram_us", "plan_us", "fill_us"});
  for (const std::string& policy : o.policies) {
    const auto planner = row_of(policy).make();
    VerifyPlan plan;
    const double plan_us = median_us(kTimes, [&] { plan = planner->plan(histograms, costs); });
    const double fill_us =
        median_us(kTimes, [&] { planner->fill(plan, histograms.size() - 1, requests, lengths); });
    table.add({policy},
              {static_cast<double>(o.ranks),
               static_cast<double>(o.requests),
               histogram_us,
               plan_us,
               fill_us},
              2);
  }
  table.print(o.json);
}

int run_bench(BenchVerifyOptions options) {
  if (options.policies.empty()) {
    for (const VerifyRow& row : verify_policies()) {
      options.policies.emplace_back(row.name);
    }
  }
  options.cost ? bench_cost(options) : bench_gains(options);
  return 0;
}

}  // namespace

void add_bench_verify(CLI::App& bench, int& status) {
  CLI::App* verify = bench.add_subcommand(
      "verify", "how many drafts a decode step verifies: tokens a second over five for each");
  const auto options = std::make_shared<BenchVerifyOptions>();
  BenchVerifyOptions& o = *options;
  verify->add_option("--policies", o.policies, "these, comma-separated; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(row_names(verify_policies())));
  verify->add_option("--seeds", o.seeds, "loads whose mean is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verify->add_option("--ranks", o.ranks, "of the group, which step together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verify->add_option("--requests", o.requests, "of a rank, in the mean")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verify->add_option("--spread", o.spread, "ranks have up to such a share more or less of them")
      ->check(real(0.0, 1.0))
      ->capture_default_str();
  verify->add_option("--grain", o.grain, "steps are padded to a multiple of so many tokens")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64}))
      ->capture_default_str();
  verify->add_option("--steps", o.steps, "of each load")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verify->add_option("--head", o.head, "the head says the true logits times this; 1: the truth")
      ->check(real(0.1, 10.0))
      ->capture_default_str();
  verify->add_flag("--calibrate", o.calibrates, "fit temperatures of the head first");
  verify->add_flag("--cost", o.cost, "time of the decisions instead, microseconds");
  verify->add_flag("--json", o.json, "a line of JSON a row");
  verify->footer(
      "Examples:\n  shoal bench verify --ranks 1 --requests 512\n"
      "  shoal bench verify --policies group,greedy --spread 0.3\n"
      "  shoal bench verify --cost --ranks 64 --grain 8");
  verify->callback([options, &status] { status = run_bench(*options); });
}

}  // namespace shoal::tools
