// shoal sim --fleet: a fleet over recorded requests, once for every way to choose that is compared.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "actors/policy/prefill_policies.h"
#include "tests/sim/fleet/fleet.h"
#include "tools/chosen_rows.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/progress_bar.h"
#include "tools/svg_chart.h"

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

struct Run {
  std::string policy;
  sim::FleetFigures figures;
  double wall_s = 0;
};

Nanos hours_of(double h) {
  return Nanos{static_cast<std::int64_t>(h * 3.6e12)};
}

Run run_one(const fleet::Fleet& options,
            const std::vector<sim::FleetRequest>& requests,
            const SimOptions& o) {
  ProgressBar bar("fleet " + options.prefill().policy());
  const sim::FleetLoad load{requests, o.rate, hours_of(o.hours)};
  const auto began = std::chrono::steady_clock::now();
  Run run{options.prefill().policy(), {}, 0};
  run.figures = sim::run_fleet(options, load, o.seed, [&](Nanos now) {
    bar.update(std::min(now, load.time).count(), load.time.count());
  });
  run.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return run;
}

double share(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

void print(std::vector<Run>& runs, const fleet::Fleet& options, const SimOptions& o) {
  const int gpus = options.prefill().instances() * options.prefill().ranks() +
                   options.decode().groups() * options.decode().ranks();
  FigureTable table("fleet",
                    {"policy", "hash"},
                    {"requests",
                     "answered",
                     "ttft_p50_ms",
                     "ttft_p99_ms",
                     "tpot_p50_ms",
                     "tpot_p99_ms",
                     "step_p99_ms",
                     "good_percent",
                     "hit_percent",
                     "prefill_use",
                     "prefill_imbalance",
                     "decode_imbalance",
                     "attempts",
                     "recomputed_tokens",
                     "usd_per_m_answer_tokens",
                     "requests_per_wall_s",
                     "times_real"});
  for (Run& run : runs) {
    sim::FleetFigures& f = run.figures;
    char hash[20];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(f.hash));
    const double h = static_cast<double>(f.ended.count()) / 3.6e12;
    table.add({run.policy, hash},
              {static_cast<double>(f.requests),
               static_cast<double>(f.answered),
               f.ttft_ms.quantile(0.5),
               f.ttft_ms.quantile(0.99),
               f.tpot_ms.quantile(0.5),
               f.tpot_ms.quantile(0.99),
               f.decode_step_ms.quantile(0.99),
               share(static_cast<double>(f.good), static_cast<double>(f.requests)),
               share(static_cast<double>(f.hit_tokens), static_cast<double>(f.prompt_tokens)),
               f.prefill_use,
               f.prefill_imbalance,
               f.decode_imbalance,
               static_cast<double>(f.attempts),
               static_cast<double>(f.recomputed_tokens),
               f.answer_tokens > 0
                   ? gpus * h * options.gpu_hour_usd() * 1e6 / static_cast<double>(f.answer_tokens)
                   : 0,
               static_cast<double>(f.requests) / run.wall_s,
               h * 3'600 / run.wall_s},
              3);
  }
  o.json ? table.print(true) : table.print_columns();
}

// Figures of ranks that hardly work, or never rest, say nothing of a policy.
void tell_load(const Run& run, double rate) {
  constexpr double kLow = 0.05;
  constexpr double kHigh = 0.97;
  const double use = run.figures.prefill_use;
  if (use < kLow || use > kHigh) {
    std::fprintf(
        stderr,
        "shoal: %s: prefill ranks worked %.1f %% of the time: %s --rate %g\n",
        run.policy.c_str(),
        100 * use,
        use < kLow ? "so small a load says little, raise" : "the fleet is overloaded, lower",
        rate);
  }
}

ChartLine distribution(const std::string& name, sim::Samples& samples) {
  ChartLine line{name, {}};
  for (int i = 0; i <= 200; ++i) {
    const double p = i / 200.0;
    line.points.emplace_back(samples.quantile(p), p);
  }
  return line;
}

// Before the run: nobody waits for charts that cannot be written.
Result<void> make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK | X_OK) != 0) {
    return fail(Code::kMisconfigured,
                folder.string() + ": charts cannot be written there; name another folder (--plot)");
  }
  return {};
}

Result<void> plot(std::vector<Run>& runs, const fs::path& folder) {
  LineChart ttft{"Time to first token", "ms", "share of requests", true, {}};
  LineChart tpot{"Time per output token", "ms", "share of requests", false, {}};
  LineChart queued{"Requests without a first token", "minute", "requests", false, {}};
  LineChart live{"Answers in decode", "minute", "answers", false, {}};
  for (Run& run : runs) {
    ttft.lines.push_back(distribution(run.policy, run.figures.ttft_ms));
    tpot.lines.push_back(distribution(run.policy, run.figures.tpot_ms));
    ChartLine& waits = queued.lines.emplace_back(ChartLine{run.policy, {}});
    ChartLine& lives = live.lines.emplace_back(ChartLine{run.policy, {}});
    for (std::size_t m = 0; m < run.figures.minutes.size(); ++m) {
      const auto minute = static_cast<double>(m + 1);
      waits.points.emplace_back(minute, static_cast<double>(run.figures.minutes[m].queued));
      lives.points.emplace_back(minute, static_cast<double>(run.figures.minutes[m].decode_live));
    }
  }
  TRY_VOID(write_svg(folder / "ttft.svg", ttft));
  TRY_VOID(write_svg(folder / "tpot.svg", tpot));
  TRY_VOID(write_svg(folder / "queued.svg", queued));
  TRY_VOID(write_svg(folder / "decode.svg", live));
  return write_svg(folder / "decode_ranks.svg",
                   HeatMap{"Step time of the ranks of decode group 0, " + runs.front().policy,
                           "rank",
                           "minute",
                           runs.front().figures.decode_ranks_ms});
}

Result<void> run(const SimOptions& o) {
  TRY(fleet::Fleet options, sim::read_fleet(o.fleet));
  TRY(const auto trace, sim::read_trace(o.trace, 0));
  const Nanos to = o.to_hour == 0 ? Nanos::max() : Nanos(hours(o.to_hour));
  const auto requests = sim::fleet_requests(trace, hours(o.from_hour), to);
  if (requests.empty()) {
    return fail(Code::kMisconfigured, o.trace + ": no request arrives between the hours given");
  }
  std::vector<std::string> policies = o.compare;
  if (policies.empty()) {
    policies.push_back(options.prefill().policy());
  }
  TRY_VOID(chosen_rows(prefill_policies(), policies, "--compare"));
  if (!o.plot.empty()) {
    TRY_VOID(make_folder(o.plot));
  }
  std::vector<Run> runs;
  for (const std::string& policy : policies) {
    options.mutable_prefill()->set_policy(policy);
    runs.push_back(run_one(options, requests, o));
    tell_load(runs.back(), o.rate);
  }
  print(runs, options, o);
  return o.plot.empty() ? Result<void>() : plot(runs, o.plot);
}

}  // namespace

int run_sim_fleet(const SimOptions& options) {
  const Result<void> done = run(options);
  return done ? 0 : report(done.error());
}

}  // namespace shoal::tools
