// Reads a week of request rates of several services: CSV, plain or gzip, with a row every so many
// seconds (`start_s`) and a column NAME_req_per_s each; other columns are not looked at.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "schemas/result.h"

namespace shoal::sim {

struct ServiceRates {
  std::string name;
  std::vector<double> per_s;  // one a row, until its last; a hole before that repeats the row above
  int row_s = 600;
};

// kMisconfigured names file and line. Services without any rate are left out.
Result<std::vector<ServiceRates>> read_rates(const std::filesystem::path& file);

}  // namespace shoal::sim
