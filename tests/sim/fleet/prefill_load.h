// What recorded requests ask of prefill: the tokens that an infinite prefix cache leaves, the rows
// that a lost window costs, and the work of both by a fixed convention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/cost_model.h"
#include "actors/policy/prefill_balancer.h"
#include "schemas/ids.h"
#include "schemas/units.h"
#include "tests/sim/trace_file.h"

namespace shoal::sim {

// 2 ms a step, 15 us a row, 0.0192 ns a row and earlier token: about 60 thousand tokens a second
// and rank; its quadratic and linear terms are related as those of V4.1-Flash. A convention to
// compare schedulers by, not a measurement.
inline constexpr CostCoefficients kReferenceCost{
    .step = std::chrono::milliseconds(2), .row_ps = 15'000'000, .pair_fs = 19'200};
inline constexpr std::int64_t kReferenceChunk = 8'192;  // rows of a rank and step
inline constexpr PrefillBounds kReferenceBounds = {std::chrono::milliseconds(20),
                                                   std::chrono::milliseconds(100),
                                                   std::chrono::milliseconds(1'000)};

struct PrefillRequest {
  Nanos arrival{0};       // from the first
  Position hit = 0;       // tokens whose KV is there
  std::int64_t rows = 0;  // those behind the hit, and those that are replayed
  Nanos work{0};          // with 2 ms for each chunk of it alone
  int length_class = 0;   // by `work`
};

// Those that arrive in [from, to). A prompt hits its longest run of leading blocks that came
// before, at most all but its last token. The windows at the hit's end are there where a request of
// the same session ended there at most 180 s ago; else 128 rows are replayed.
std::vector<PrefillRequest> prefill_requests(std::span<const TraceRequest> trace,
                                             Nanos from,
                                             Nanos to);

}  // namespace shoal::sim
