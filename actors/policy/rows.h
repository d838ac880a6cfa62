// Rows of a registry, found by the name that a configuration or a command line gives.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace shoal {

// Null: there is none of that name.
template <class Row>
const Row* find_row(std::span<const Row> rows, std::string_view name) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const Row& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace shoal
