// What a rank says of a step that is over, as far as drafts go.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/policy/verify_histogram.h"
#include "actors/policy/verify_temperature.h"
#include "schemas/units.h"

namespace shoal {

struct RankDrafts {
  DraftHistogram made{};  // calibrated; of the drafts made behind the step, to verify in the next
  std::int64_t requests = 0;  // in the step; 0: the rank had none
  std::int64_t rows = 0;      // one a request, and the drafts it verified
  std::int64_t drafted = 0;   // requests for which drafts were made behind it
  bool feeds = false;         // drafts see its rows
  Nanos compute{0};
  std::vector<VerifyOutcome> outcomes{};  // of requests with verified drafts
};

}  // namespace shoal
