// The rows of a registry of policies that a command is to compare.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace shoal::tools {

// In the order of `names`, which the registry has; none: all rows.
template <class Row>
std::vector<Row> chosen_rows(std::span<const Row> rows, const std::vector<std::string>& names) {
  if (names.empty()) {
    return {rows.begin(), rows.end()};
  }
  std::vector<Row> chosen;
  for (const std::string& name : names) {
    const auto at = std::find_if(
        rows.begin(), rows.end(), [&name](const Row& row) { return row.name == name; });
    if (at != rows.end()) {
      chosen.push_back(*at);
    }
  }
  return chosen;
}

template <class Row>
std::vector<std::string> row_names(std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    names.emplace_back(row.name);
  }
  return names;
}

}  // namespace shoal::tools
