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
  for (const Row& row : names.empty() ? rows : rows.first(0)) {
    found.push_back(&row);
  }
  for (const std::string& name : names) {
    TRY(const Row* row, known_row(rows, name, flag));
    found.push_back(row);
  }
  return found;
}

}  // namespace shoal::tools
