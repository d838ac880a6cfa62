// shoal bench autoscale: what machines cost under recorded request rates, over one that knows the
// future, and for how long they were too few.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/sim/fleet/autoscale_replay.h"
#include "tests/sim/fleet/samples.h"
#include "tools/commands.h"
#include "tools/figure_table.h"

namespace shoal::tools {

namespace {

using sim::AutoscaleFigures;
using sim::AutoscaleLoad;
using sim::ServiceRates;

const AutoscaleRow& row_of(const std::string& name) {
  const auto rows = autoscale_policies();
  return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
}

AutoscaleLoad load_of(const BenchAutoscaleOptions& o) {
  AutoscaleLoad load;
  load.peak_units = o.peak_units;
  load.timing.provisioning = std::chrono::seconds(o.provisioning_s);
  load.shape.most = o.peak_units;
  return load;
}

// Sums over seeds, and over services for all of them.
struct Costs {
  AutoscaleFigures sum;
  double hours = 0;  // of the load

  void add(const AutoscaleFigures& figures, double load_hours) {
    sum.unit_hours += figures.unit_hours;
    sum.oracle_hours += figures.oracle_hours;
    sum.violating += figures.violating * load_hours;
    sum.excess += figures.excess * load_hours;
    sum.changes += figures.changes;
    hours += load_hours;
  }

  std::vector<double> numbers(int seeds) const {
    return {sum.unit_hours / seeds,
            sum.oracle_hours / seeds,
            100 * (sum.unit_hours / sum.oracle_hours - 1),
            100 * sum.violating / hours,
            100 * sum.excess / hours,
            static_cast<double>(sum.changes) / seeds};
  }
};

void bench_hours(const BenchAutoscaleOptions& o, const std::vector<ServiceRates>& services) {
  FigureTable table(
      "autoscale",
      {"service", "policy"},
      {"unit_hours", "oracle_hours", "over_oracle_%", "too_few_%", "work_above_%", "changes"});
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

}  // namespace

int run_bench_autoscale(BenchAutoscaleOptions options) {
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

}  // namespace shoal::tools
