// What chunks of a prompt cost: which rows run the decoder half, too, is part of it.
#pragma once

#include <cstdint>

#include "actors/policy/cost_model.h"
#include "actors/policy/prefill_rows.h"
#include "schemas/units.h"

namespace shoal {

// What `rows` rows behind `done` add to a step. They must not cross chunk_border().
Nanos prefill_cost(const CostModel& cost,
                   const PrefillSpan& span,
                   Position done,
                   std::int64_t rows);

// All that is left behind `done`.
Nanos prefill_left(const CostModel& cost, const PrefillSpan& span, Position done);

// A prefill that has a step for itself.
Nanos prefill_work(const CostModel& cost, const PrefillSpan& span);

// Most rows behind `done` that cost no more than `budget`, up to chunk_border(); at least up to the
// next border of a block. See CostModel::fit_chunk.
std::int64_t fit_prefill(const CostModel& cost,
                         const PrefillSpan& span,
                         Position done,
                         Nanos budget);

}  // namespace shoal
