// shoal bench autoscale: what machines cost under recorded request rates, over one that knows the
// future, and for how long they were too few.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/fleet/autoscale_replay.h"
#include "tests/sim/fleet/samples.h"
#include "tools/bench_command_line.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/policy_rows.h"

namespace shoal::tools {

namespace {

using sim::AutoscaleFigures;
using sim::AutoscaleLoad;
using sim::ServiceRates;

struct BenchAutoscaleOptions {
  std::string trace;                  // a file of rates
  std::vector<std::string> policies;  // empty: all
  int seeds = 5;
  int provisioning_s = 180;  // until a unit that is asked for takes work
  int peak_units = 40;       // that the highest rate of a service needs
  int target = 75;           // percent of the time that ranks should be busy
  int limit = 90;            // busier ones are too few
  bool cost = false;         // time of a decision instead
  bool json = false;
};

const AutoscaleRow& row_of(const std::string& name) {
  const auto rows = autoscale_policies();
  return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
}

AutoscaleLoad load_of(const BenchAutoscaleOptions& o) {
  AutoscaleLoad load;
  load.peak_units = o.peak_units;
  load.timing.provisioning = std::chrono::seconds(o.provisioning_s);
  load.shape.most = o.peak_units;
  load.shape.target_permille = o.target * 10;
  load.shape.limit_permille = o.limit * 10;
  return load;
}

// Sums over seeds, and over services for all of them.
struct Costs {
  AutoscaleFigures sum;
  double hours = 0;  // of the load

  void add(const AutoscaleFigures& figures, double load_hours) {
    sum.unit_hours += figures.unit_hours;
    sum.oracle_hours += figures.oracle_hours;
    sum.equal_hours += figures.equal_hours;
    sum.delayed_hours += figures.delayed_hours;
    sum.violating += figures.violating * load_hours;
    sum.excess += figures.excess * load_hours;
    sum.changes += figures.changes;
    hours += load_hours;
  }

  std::vector<double> numbers(int seeds) const {
    return {sum.unit_hours / seeds,
            sum.oracle_hours / seeds,
            100 * (sum.unit_hours / sum.oracle_hours - 1),
            100 * (sum.unit_hours / sum.equal_hours - 1),
            100 * (sum.delayed_hours / sum.oracle_hours - 1),
            100 * sum.violating / hours,
            100 * sum.excess / hours,
            static_cast<double>(sum.changes) / seeds};
  }
};

void bench_hours(const BenchAutoscaleOptions& o, const std::vector<ServiceRates>& services) {
  FigureTable table("autoscale",
                    {"service", "policy"},
                    {"unit_hours",
                     "oracle_hours",
                     "over_oracle_%",
                     "over_equal_%",
                     "delay_alone_%",
                     "too_few_%",
                     "work_above_%",
                     "changes"});
  std::vector<Costs> all(o.policies.size());
  for (const ServiceRates& service : services) {
    const double hours = static_cast<double>(service.per_s.size()) * service.row_s / 3600;
    for (std::size_t p = 0; p < o.policies.size(); ++p) {
      Costs costs;
      AutoscaleLoad load = load_of(o);
      for (int seed = 1; seed <= o.seeds; ++seed) {
        load.seed = static_cast<std::uint64_t>(seed);
        const auto figures = sim::replay_autoscale(row_of(o.policies[p]), service, load);
        costs.add(figures, hours);
        all[p].add(figures, hours);
      }
      table.add({service.name, o.policies[p]}, costs.numbers(o.seeds), 2);
    }
  }
  for (std::size_t p = 0; p < o.policies.size(); ++p) {
    table.add({"all", o.policies[p]}, all[p].numbers(o.seeds), 2);
  }
  table.print(o.json);
}

// A plan for three roles after a week of minutes.
void bench_cost(const BenchAutoscaleOptions& o) {
  constexpr int kMinutes = 10'080;
  FigureTable table("autoscale-cost", {"policy"}, {"roles", "plan_us"});
  const AutoscaleLoad load = load_of(o);
  const std::vector<PoolShape> shapes(3, load.shape);
  for (const std::string& policy : o.policies) {
    const auto scaler = row_of(policy).make(load.timing, shapes);
    sim::Samples samples;
    for (int minute = 0; minute < kMinutes; ++minute) {
      const PoolLoad seen{.demand_ns = minute % 1'440 * 100'000'000LL, .units = 20};
      const std::vector<PoolLoad> loads(3, seen);
      const auto begin = std::chrono::steady_clock::now();
      scaler->plan(loads);
      samples.add(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
              .count());
    }
    table.add({policy}, {3, samples.quantile(0.5)}, 2);
  }
  table.print(o.json);
}

int run_bench(BenchAutoscaleOptions options) {
  if (options.policies.empty()) {
    for (const AutoscaleRow& row : autoscale_policies()) {
      options.policies.emplace_back(row.name);
    }
  }
  if (options.cost) {
    bench_cost(options);
    return 0;
  }
  const auto services = sim::read_rates(options.trace);
  if (!services) {
    return report(services.error());
  }
  bench_hours(options, *services);
  return 0;
}

}  // namespace

void add_bench_autoscale(CLI::App& bench, int& status) {
  CLI::App* autoscale = bench.add_subcommand(
      "autoscale", "machines under recorded request rates: their cost, and when they were too few");
  const auto options = std::make_shared<BenchAutoscaleOptions>();
  BenchAutoscaleOptions& o = *options;
  autoscale
      ->add_option("--trace", o.trace, "file of rates: CSV, plain or gzip, see tests/sim/traces")
      ->check(CLI::ExistingFile);
  autoscale->add_option("--policies", o.policies, "these, comma-separated; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(row_names(autoscale_policies())));
  autoscale->add_option("--seeds", o.seeds, "draws of the requests whose mean is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  autoscale
      ->add_option(
          "--provisioning-s", o.provisioning_s, "until a unit that is asked for takes work")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  autoscale->add_option("--peak-units", o.peak_units, "that a service's highest rate needs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  autoscale->add_option("--target", o.target, "percent of the time that ranks should be busy")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  autoscale->add_option("--limit", o.limit, "percent: ranks that are busier are too few")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  autoscale->add_flag("--cost", o.cost, "time of the decisions instead, microseconds");
  autoscale->add_flag("--json", o.json, "a line of JSON a row");
  autoscale->footer(
      "The oracle knows the future and has no delay; its equal is too few as often as the row was, "
      "in the minutes that cost most.\n\n"
      "Examples:\n  shoal bench autoscale --trace tests/sim/traces/rates-2d.csv.gz\n"
      "  shoal bench autoscale --trace rates.csv.gz --policies ours,reactive --provisioning-s 60");
  autoscale->callback([options, &status] {
    if (options->trace.empty() && !options->cost) {
      throw CLI::RequiredError("--trace or --cost");
    }
    status = run_bench(*options);
  });
}

}  // namespace shoal::tools
