// Splits a sequence into encoder rows, the prompt's end, and decode rows.
#include "actors/policy/prefill_rows.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal {

Position chunk_border(const PrefillSpan& span, Position done) {
  if (span.mode == BasisMode::kExact) {
    return done < span.hit ? span.hit : span.total;
  }
  return done < span.prompt ? span.prompt : span.total;
}

PrefillRows prefill_rows(const PrefillSpan& span, Position done, std::int64_t count) {
  CHECK(count > 0 && done >= span.start && done + count <= chunk_border(span, done));
  PrefillRows rows{.first = done, .count = count};
  rows.encoder_only = span.mode == BasisMode::kBounded && done < span.prompt;
  rows.finishes_prompt = rows.encoder_only && done + count == span.prompt;
  rows.samples = done + count == span.total;
  rows.begins = done == span.start;
  rows.rebuilds_windows = span.mode == BasisMode::kExact && done < span.hit;
  return rows;
}

}  // namespace shoal
