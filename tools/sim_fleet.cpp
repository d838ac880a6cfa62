// shoal sim --fleet: a fleet over recorded requests, once for every row that is compared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/sim/fleet/fleet.h"
#include "tests/sim/fleet/rates_file.h"
#include "tools/commands.h"
#include "tools/figure_table.h"
#include "tools/progress_bar.h"
#include "tools/sim_fleet_charts.h"

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

Nanos hours_of(double h) {
  return Nanos{static_cast<std::int64_t>(h * 3.6e12)};
}

FleetOutcome run_one(const std::string& choice,
                     const fleet::Fleet& fleet,
                     const sim::FleetLoad& load,
                     std::uint64_t seed) {
  ProgressBar bar("fleet " + choice);
  const auto began = std::chrono::steady_clock::now();
  FleetOutcome run{choice, {}, 0};
  run.figures = sim::run_fleet(fleet, load, seed, [&](Nanos now) {
    bar.update(std::min(now, load.time).count(), load.time.count());
  });
  run.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return run;
}

double share(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

// From the store, in all minutes.
double loaded_gb(const sim::FleetFigures& figures) {
  double bytes = 0;
  for (const sim::FleetMinute& minute : figures.minutes) {
    bytes += static_cast<double>(minute.loaded_bytes);
  }
  return bytes * 1e-9;
}

void print(std::vector<FleetOutcome>& runs, const fleet::Fleet& options, const SimOptions& o) {
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
                     "moe_lb",
                     "tokens_a_step",
                     "drafts_a_step",
                     "images_p99_ms",
                     "encoded_percent",
                     "store_gb",
                     "evicted_gtokens",
                     "expired_gtokens",
                     "load_gb_a_s",
                     "loads_refused",
                     "experts_tb_an_hour",
                     "attempts",
                     "recomputed_tokens",
                     "scale_changes",
                     "gpu_hours",
                     "usd_per_m_answer_tokens",
                     "requests_per_wall_s",
                     "times_real"});
  for (FleetOutcome& run : runs) {
    sim::FleetFigures& f = run.figures;
    char hash[20];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(f.hash));
    const double h = static_cast<double>(f.ended.count()) / 3.6e12;
    table.add({run.choice, hash},
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
               f.moe_lb,
               f.tokens_a_step,
               f.drafts_a_step,
               f.images_ready_ms.quantile(0.99),
               share(static_cast<double>(f.images_encoded), static_cast<double>(f.images)),
               f.minutes.empty() ? 0 : static_cast<double>(f.minutes.back().store_bytes) * 1e-9,
               static_cast<double>(f.evicted_tokens) * 1e-9,
               static_cast<double>(f.expired_tokens) * 1e-9,
               loaded_gb(f) / (h * 3'600),
               static_cast<double>(f.loads_refused),
               f.expert_bytes_an_hour * 1e-12,
               static_cast<double>(f.attempts),
               static_cast<double>(f.recomputed_tokens),
               static_cast<double>(f.scale_changes),
               f.gpu_hours,
               f.answer_tokens > 0 ? f.gpu_hours * options.gpu_hour_usd() * 1e6 /
                                         static_cast<double>(f.answer_tokens)
                                   : 0,
               static_cast<double>(f.requests) / run.wall_s,
               h * 3'600 / run.wall_s},
              3);
  }
  o.json ? table.print(true) : table.print_columns();
}

// Figures of ranks that hardly work, or never rest, say nothing of a policy.
void tell_load(const FleetOutcome& run, double rate) {
  constexpr double kLow = 0.05;
  constexpr double kHigh = 0.97;
  const double use = run.figures.prefill_use;
  if (use < kLow || use > kHigh) {
    std::fprintf(
        stderr,
        "shoal: %s: prefill ranks worked %.1f %% of the time: %s --rate %g\n",
        run.choice.c_str(),
        100 * use,
        use < kLow ? "so small a load says little, raise" : "the fleet is overloaded, lower",
        rate);
  }
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

Result<sim::RateCurve> curve_of(const SimOptions& o) {
  if (o.rates.empty()) {
    return sim::RateCurve{};
  }
  TRY(const auto services, sim::read_rates(o.rates));
  const auto service = std::find_if(services.begin(), services.end(), [&](const auto& one) {
    return o.service.empty() || one.name == o.service;
  });
  if (service == services.end()) {
    std::string known;
    for (const sim::ServiceRates& one : services) {
      known += " " + one.name;
    }
    return fail(Code::kMisconfigured, "--service: no '" + o.service + "'; there are" + known);
  }
  sim::RateCurve curve{std::chrono::seconds(service->row_s), service->per_s};
  const double peak = *std::max_element(curve.rates.begin(), curve.rates.end());
  for (double& rate : curve.rates) {
    rate /= peak;
  }
  return curve;
}

Result<void> run(const SimOptions& o) {
  if (o.rate == 1 && o.copies == 1) {
    return fail(Code::kMisconfigured,
                "a trace is of few machines, a fleet has many: give --rate above 1, or --copies");
  }
  TRY(fleet::Fleet options, sim::read_fleet(o.fleet));
  TRY(const auto trace, sim::read_trace(o.trace, 0));
  const Nanos to = o.to_hour == 0 ? Nanos::max() : Nanos(hours(o.to_hour));
  const auto played = sim::fleet_trace(trace, hours(o.from_hour), to);
  if (played.requests.empty()) {
    return fail(Code::kMisconfigured, o.trace + ": no request arrives between the hours given");
  }
  TRY(const sim::RateCurve curve, curve_of(o));
  const sim::FleetLoad load{&played, o.rate, hours_of(o.hours), o.copies, curve};
  std::vector<std::string> choices = o.compare;
  if (choices.empty()) {
    choices.push_back(options.prefill().policy());
  }
  std::vector<fleet::Fleet> fleets;
  for (const std::string& choice : choices) {
    auto fleet = sim::with_rows(options, choice);
    if (!fleet) {
      return fail(Code::kMisconfigured, "--compare: " + fleet.error().message);
    }
    fleets.push_back(*std::move(fleet));
  }
  if (!o.plot.empty()) {
    TRY_VOID(make_folder(o.plot));
  }
  std::vector<FleetOutcome> runs;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    runs.push_back(run_one(choices[i], fleets[i], load, o.seed));
    tell_load(runs.back(), o.rate);
  }
  print(runs, options, o);
  return o.plot.empty() ? Result<void>() : write_fleet_charts(runs, o.plot);
}

}  // namespace

int run_sim_fleet(const SimOptions& options) {
  const Result<void> done = run(options);
  return done ? 0 : report(done.error());
}

}  // namespace shoal::tools
