// Distributions, minutes, and maps over time.
#include "tools/sim_fleet_charts.h"

#include <algorithm>

#include "tools/svg_chart.h"

namespace shoal::tools {
namespace {

namespace fs = std::filesystem;

// Of a map: more could not be told apart.
constexpr std::size_t kMostRows = 150;

ChartLine distribution(const std::string& name, sim::Samples& samples) {
  ChartLine line{name, {}};
  for (int i = 0; i <= 200; ++i) {
    const double p = i / 200.0;
    line.points.emplace_back(samples.quantile(p), p);
  }
  return line;
}

Result<void> plot_distributions(std::vector<FleetOutcome>& runs, const fs::path& folder) {
  LineChart ttft{"Time to first token", "ms", "share of requests", true, {}};
  LineChart tpot{"Time per output token", "ms", "share of requests", false, {}};
  LineChart images{"Images of a request ready", "ms", "share of requests", true, {}};
  for (FleetOutcome& run : runs) {
    ttft.lines.push_back(distribution(run.choice, run.figures.ttft_ms));
    tpot.lines.push_back(distribution(run.choice, run.figures.tpot_ms));
    images.lines.push_back(distribution(run.choice, run.figures.images_ready_ms));
  }
  TRY_VOID(write_svg(folder / "ttft.svg", ttft));
  TRY_VOID(write_svg(folder / "tpot.svg", tpot));
  if (runs.front().figures.images > 0) {
    return write_svg(folder / "images.svg", images);
  }
  return {};
}

template <class Value>
Result<void> plot_minutes(const std::vector<FleetOutcome>& runs,
                          const fs::path& file,
                          const std::string& title,
                          const std::string& unit,
                          const Value& value) {
  LineChart chart{title, "minute", unit, false, {}};
  for (const FleetOutcome& run : runs) {
    ChartLine& line = chart.lines.emplace_back(ChartLine{run.choice, {}});
    for (std::size_t m = 0; m < run.figures.minutes.size(); ++m) {
      line.points.emplace_back(static_cast<double>(m + 1), value(run.figures.minutes[m]));
    }
  }
  return write_svg(file, chart);
}

Result<void> plot_load(const std::vector<FleetOutcome>& runs, const fs::path& folder) {
  using Minute = sim::FleetMinute;
  const auto count = [](std::int64_t value) { return static_cast<double>(value); };
  TRY_VOID(plot_minutes(runs,
                        folder / "queued.svg",
                        "Requests without a first token",
                        "requests",
                        [&](const Minute& m) { return count(m.queued); }));
  TRY_VOID(plot_minutes(
      runs, folder / "decode.svg", "Answers in decode", "answers", [&](const Minute& m) {
        return count(m.decode_live);
      }));
  TRY_VOID(plot_minutes(
      runs, folder / "loads.svg", "KV loaded from the store", "GB/s", [&](const Minute& m) {
        return count(m.loaded_bytes) / 60e9;
      }));
  TRY_VOID(plot_minutes(runs,
                        folder / "prefill_instances.svg",
                        "Prefill instances that cost",
                        "instances",
                        [&](const Minute& m) { return count(m.prefill_paid); }));
  return plot_minutes(runs,
                      folder / "decode_groups.svg",
                      "Decode groups that cost",
                      "groups",
                      [&](const Minute& m) { return count(m.decode_paid); });
}

// Neighbouring rows become their mean.
std::vector<std::vector<double>> condensed(const std::vector<std::vector<double>>& rows) {
  const std::size_t each = (rows.size() + kMostRows - 1) / kMostRows;
  std::vector<std::vector<double>> means;
  for (std::size_t first = 0; first < rows.size(); first += each) {
    const std::size_t end = std::min(rows.size(), first + each);
    std::vector<double>& mean = means.emplace_back(rows[first].size());
    for (std::size_t r = first; r < end; ++r) {
      for (std::size_t c = 0; c < mean.size(); ++c) {
        mean[c] += rows[r][c] / static_cast<double>(end - first);
      }
    }
  }
  return means;
}

Result<void> plot_maps(const FleetOutcome& run, const fs::path& folder) {
  const auto map = [&](const std::string& title,
                       const char* columns,
                       const char* over,
                       const std::vector<std::vector<double>>& rows) {
    return HeatMap{title + ", " + run.choice, columns, over, condensed(rows)};
  };
  TRY_VOID(write_svg(folder / "decode_ranks.svg",
                     map("Step time of the ranks of decode group 0",
                         "rank",
                         "minute",
                         run.figures.decode_ranks_ms)));
  if (run.figures.experts.empty()) {
    return {};
  }
  TRY_VOID(write_svg(
      folder / "expert_gpus.svg",
      map("Expert load of the GPUs of decode group 0", "GPU", "window", run.figures.expert_gpus)));
  return write_svg(folder / "experts.svg",
                   map("Load of the experts of one layer of decode group 0",
                       "expert",
                       "window",
                       run.figures.experts));
}

}  // namespace

Result<void> write_fleet_charts(std::vector<FleetOutcome>& runs, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  TRY_VOID(plot_distributions(runs, folder));
  TRY_VOID(plot_load(runs, folder));
  return plot_maps(runs.front(), folder);
}

}  // namespace shoal::tools
