// Rows of a registry, found by the name that a configuration or a command line gives.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "schemas/result.h"

namespace shoal {

// Null: there is none of that name.
template <class Row>
const Row* find_row(std::span<const Row> rows, std::string_view name) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const Row& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

// kMisconfigured says `where` the name was given, and the rows there are.
template <class Row>
Result<const Row*> known_row(std::span<const Row> rows,
                             const std::string& name,
                             const std::string& where) {
  if (const Row* row = find_row(rows, name)) {
    return row;
  }
  std::string known;
  for (const Row& row : rows) {
    known += " " + std::string(row.name);
  }
  return fail(Code::kMisconfigured, where + ": no '" + name + "'; there are" + known);
}

}  // namespace shoal
