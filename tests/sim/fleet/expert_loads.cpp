// Reads tables of expert loads; every line is checked.
#include "tests/sim/fleet/expert_loads.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <utility>

#include "tests/sim/gzip_file.h"

namespace shoal::sim {

namespace {

constexpr std::size_t kNames = 3;  // columns before the experts
constexpr std::int64_t kMostWindows = 1'000'000;

struct Row {
  std::int64_t window = 0;
  std::int64_t step = 0;
  std::int64_t layer = 0;
  std::vector<std::int64_t> counts;
};

struct Table {
  std::int32_t experts = 0;
  std::vector<Row> rows;
};

Error bad_line(const std::filesystem::path& file, std::size_t line, const std::string& what) {
  return {Code::kMisconfigured,
          file.string() + ":" + std::to_string(line) + ": " + what +
              "; expected window,step,layer and a count of each expert, all whole numbers"};
}

// False: something else than whole numbers, none negative.
bool numbers_of(const std::string& line, std::vector<std::int64_t>& numbers) {
  numbers.clear();
  const char* next = line.data();
  const char* end = next + line.size() - (line.ends_with('\r') ? 1 : 0);
  while (next < end) {
    std::int64_t number = 0;
    const auto [after, status] = std::from_chars(next, end, number);
    if (status != std::errc() || number < 0 || (after < end && *after != ',')) {
      return false;
    }
    numbers.push_back(number);
    next = after + (after < end ? 1 : 0);
  }
  return true;
}

Result<Table> read_table(const std::filesystem::path& file) {
  TRY(std::string text, read_text(file));
  std::istringstream lines(std::move(text));
  std::string line;
  std::getline(lines, line);
  const auto columns = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  if (!line.starts_with("window,step,layer,") || columns <= kNames) {
    return tl::unexpected(bad_line(file, 1, "no line of names"));
  }
  Table table{static_cast<std::int32_t>(columns - kNames), {}};
  std::vector<std::int64_t> numbers;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    if (!numbers_of(line, numbers) || numbers.size() != columns || numbers[0] > kMostWindows) {
      return tl::unexpected(bad_line(file, number, "not such a line"));
    }
    table.rows.push_back(
        {numbers[0], numbers[1], numbers[2], {numbers.begin() + kNames, numbers.end()}});
  }
  if (table.rows.empty()) {
    return tl::unexpected(bad_line(file, 2, "ends after the names"));
  }
  return table;
}

// Rows of one window and step are one after another, their layers in order.
Result<std::int32_t> layers_of(const std::filesystem::path& file, const Table& table) {
  std::int64_t layers = 0;
  for (const Row& row : table.rows) {
    layers = std::max(layers, row.layer + 1);
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const Row& row = table.rows[i];
    const Row& first = table.rows[i - i % layers];
    if (row.layer != static_cast<std::int64_t>(i) % layers || row.window != first.window ||
        row.step != first.step) {
      return tl::unexpected(bad_line(file, i + 2, "layers are not in order"));
    }
  }
  if (table.rows.size() % layers != 0) {
    return tl::unexpected(bad_line(file, table.rows.size() + 1, "the last layers are missing"));
  }
  return static_cast<std::int32_t>(layers);
}

ExpertCounts counts_at(const Table& table, std::size_t first, std::int32_t layers) {
  ExpertCounts counts;
  for (std::size_t i = first; i < first + layers; ++i) {
    counts.insert(counts.end(), table.rows[i].counts.begin(), table.rows[i].counts.end());
  }
  return counts;
}

}  // namespace

Result<ExpertLoads> read_expert_loads(const std::filesystem::path& windows,
                                      const std::filesystem::path& steps) {
  TRY(const Table of_windows, read_table(windows));
  TRY(const Table of_steps, read_table(steps));
  ExpertLoads loads;
  loads.experts = of_windows.experts;
  TRY(loads.layers, layers_of(windows, of_windows));
  TRY(const std::int32_t step_layers, layers_of(steps, of_steps));
  if (step_layers != loads.layers || of_steps.experts != loads.experts) {
    return tl::unexpected(bad_line(steps, 2, "other layers or experts than the windows"));
  }
  for (std::size_t i = 0; i < of_windows.rows.size(); i += loads.layers) {
    if (of_windows.rows[i].window != std::ssize(loads.windows)) {
      return tl::unexpected(bad_line(windows, i + 2, "windows are not in order"));
    }
    loads.windows.push_back(counts_at(of_windows, i, loads.layers));
  }
  for (std::size_t i = 0; i < of_steps.rows.size(); i += loads.layers) {
    const auto window = static_cast<std::int32_t>(of_steps.rows[i].window);
    if (window >= std::ssize(loads.windows)) {
      return tl::unexpected(bad_line(steps, i + 2, "a window that the other file lacks"));
    }
    loads.steps[window].push_back(counts_at(of_steps, i, loads.layers));
  }
  return loads;
}

ExpertLoads in_pairs(const ExpertLoads& loads) {
  ExpertLoads pairs = loads;
  for (auto& [window, steps] : pairs.steps) {
    for (std::size_t i = 0; 2 * i + 1 < steps.size(); ++i) {
      steps[i] = steps[2 * i];
      for (std::size_t e = 0; e < steps[i].size(); ++e) {
        steps[i][e] += loads.steps.at(window)[2 * i + 1][e];
      }
    }
    steps.resize(steps.size() / 2);
  }
  return pairs;
}

}  // namespace shoal::sim
