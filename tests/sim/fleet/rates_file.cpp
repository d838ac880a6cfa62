// Split at commas: the numbers and names in such a file hold none.
#include "tests/sim/fleet/rates_file.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

#include "tests/sim/gzip_file.h"

namespace shoal::sim {
namespace {

constexpr std::string_view kSuffix = "_req_per_s";
constexpr char kExpected[] = "a rates file has columns start_s and NAME_req_per_s, a row a time";
constexpr double kMost = 1e9;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

std::optional<double> number_in(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool is_whole = error == std::errc() && end == cell.data() + cell.size();
  return is_whole && value >= 0 && value <= kMost ? std::optional(value) : std::nullopt;
}

struct Column {
  std::size_t place;
  ServiceRates service;
  int holes = 0;  // since its last number

  // False: neither a rate nor empty.
  bool add(const std::string& cell) {
    if (cell.empty()) {
      ++holes;
      return true;
    }
    const auto rate = number_in(cell);
    if (!rate) {
      return false;
    }
    const double before = service.per_s.empty() ? *rate : service.per_s.back();
    service.per_s.insert(service.per_s.end(), static_cast<std::size_t>(holes), before);
    service.per_s.push_back(*rate);
    holes = 0;
    return true;
  }
};

struct Columns {
  std::optional<std::size_t> start;
  std::vector<Column> services;
};

Columns columns_of(const std::string& header) {
  Columns columns;
  const std::vector<std::string> names = split(header);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "start_s") {
      columns.start = i;
    } else if (names[i].ends_with(kSuffix)) {
      const std::string name = names[i].substr(0, names[i].size() - kSuffix.size());
      columns.services.push_back({.place = i, .service = {.name = name, .per_s = {}}});
    }
  }
  return columns;
}

}  // namespace

Result<std::vector<ServiceRates>> read_rates(const std::filesystem::path& file) {
  TRY(std::string text, read_text(file));
  std::istringstream lines(std::move(text));
  std::string line;
  std::getline(lines, line);
  Columns columns = columns_of(line);
  if (!columns.start || columns.services.empty()) {
    return fail(Code::kMisconfigured, file.string() + ":1: " + kExpected);
  }
  std::vector<double> starts;
  for (int number = 2; std::getline(lines, line); ++number) {
    const std::vector<std::string> cells = split(line);
    const auto start =
        *columns.start < cells.size() ? number_in(cells[*columns.start]) : std::nullopt;
    bool is_good = start && (starts.empty() || *start > starts.back());
    for (Column& column : columns.services) {
      is_good = is_good && column.place < cells.size() && column.add(cells[column.place]);
    }
    if (!is_good) {
      return fail(Code::kMisconfigured,
                  file.string() + ":" + std::to_string(number) +
                      ": expected a later start_s and rates, numbers or empty; " + kExpected);
    }
    starts.push_back(*start);
  }
  std::vector<ServiceRates> services;
  for (Column& column : columns.services) {
    column.service.row_s =
        starts.size() > 1 ? static_cast<int>(std::max(1.0, starts[1] - starts[0])) : 600;
    if (!column.service.per_s.empty()) {
      services.push_back(std::move(column.service));
    }
  }
  if (services.empty()) {
    return fail(Code::kMisconfigured, file.string() + ": has no rates; " + kExpected);
  }
  return services;
}

}  // namespace shoal::sim
