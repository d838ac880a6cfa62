// The rows of a registry of policies that a command line names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/policy/rows.h"
#include "schemas/result.h"

namespace shoal::tools {

// Those of `names`, or all. kMisconfigured names the flag, the name and the rows there are.
template <class Row>
Result<std::vector<const Row*>> chosen_rows(std::span<const Row> rows,
                                            const std::vector<std::string>& names,
                                            const char* flag) {
  std::vector<const Row*> found;
  std::string known;
  for (const Row& row : rows) {
    known += " " + std::string(row.name);
    if (names.empty()) {
      found.push_back(&row);
    }
  }
  for (const std::string& name : names) {
    const Row* row = find_row(rows, name);
    if (row == nullptr) {
      return fail(Code::kMisconfigured,
                  std::string(flag) + ": no '" + name + "'; there are" + known);
    }
    found.push_back(row);
  }
  return found;
}

}  // namespace shoal::tools
