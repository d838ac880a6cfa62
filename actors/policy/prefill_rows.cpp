// Splits a sequence into encoder rows, the prompt's end, and decode rows.
#include "actors/policy/prefill_rows.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal {

Basis first_basis(BasisMode mode, Position prompt, Position window) {
  Basis basis;
  basis.mode = mode;
  basis.tail_start = mode == BasisMode::kBounded ? std::max<Position>(0, prompt - window) : 0;
  return basis;
}

Position chunk_border(const PrefillSpan& span, Position done) {
  return span.mode == BasisMode::kBounded && done < span.prompt ? span.prompt : span.total;
}

PrefillRows prefill_rows(const PrefillSpan& span, Position done, std::int64_t count) {
  CHECK(count > 0 && done + count <= chunk_border(span, done));
  PrefillRows rows{.first = done, .count = count};
  rows.encoder_only = span.mode == BasisMode::kBounded && done < span.prompt;
  rows.finishes_prompt = rows.encoder_only && done + count == span.prompt;
  rows.samples = done + count == span.total;
  return rows;
}

}  // namespace shoal
