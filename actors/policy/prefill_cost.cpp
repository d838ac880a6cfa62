// The stretches between chunk borders, each of one kind of rows.
#include "actors/policy/prefill_cost.h"

#include <algorithm>

namespace shoal {

Nanos prefill_cost(const CostModel& cost,
                   const PrefillSpan& span,
                   Position done,
                   std::int64_t rows) {
  return cost.rows_only(rows, done, deep_rows(span, done, rows));
}

Nanos prefill_left(const CostModel& cost, const PrefillSpan& span, Position done) {
  Nanos left{0};
  while (done < span.total) {
    const Position border = chunk_border(span, done);
    left += prefill_cost(cost, span, done, border - done);
    done = border;
  }
  return left;
}

Nanos prefill_work(const CostModel& cost, const PrefillSpan& span) {
  return cost.coefficients().step + prefill_left(cost, span, span.reuse.start);
}

std::int64_t fit_prefill(const CostModel& cost,
                         const PrefillSpan& span,
                         Position done,
                         Nanos budget) {
  const std::int64_t most = chunk_border(span, done) - done;
  if (prefill_cost(cost, span, done, most) <= budget) {
    return most;
  }
  const bool runs_all = deep_rows(span, done, 1) == 1;
  const std::int64_t rows = (runs_all ? cost.every_layer() : cost).fit_chunk(budget, done, most);
  // The prompt's rows fit, but not with the decoder half behind them: that is the next step's.
  const std::int64_t before = (done + most - 1) / kBlockTokens * kBlockTokens - done;
  return rows == most && before > 0 ? before : rows;
}

}  // namespace shoal
