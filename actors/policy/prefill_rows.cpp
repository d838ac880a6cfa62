// Splits a sequence into encoder rows, the prompt's end, and rows of every layer.
#include "actors/policy/prefill_rows.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal {
namespace {

// The decoder half runs on kept rows, at the prompt's end.
bool keeps_rows(const PrefillSpan& span) {
  return span.mode == BasisMode::kBounded && span.reuse.decoder_start < span.prompt;
}

Position encoder_end(const PrefillSpan& span) {
  return keeps_rows(span) ? span.prompt : span.reuse.decoder_start;
}

}  // namespace

Position chunk_border(const PrefillSpan& span, Position done) {
  const bool in_encoder = done < encoder_end(span);
  const Position whole = in_encoder ? span.reuse.encoder_whole : span.reuse.decoder_whole;
  const Position border = in_encoder ? encoder_end(span) : span.total;
  return whole > done ? std::min(border, whole) : border;
}

std::int64_t deep_rows(const PrefillSpan& span, Position done, std::int64_t count) {
  if (done >= encoder_end(span)) {
    return count;
  }
  const bool finishes = keeps_rows(span) && done + count == span.prompt;
  return finishes ? span.prompt - std::max(span.reuse.start, span.reuse.decoder_start) : 0;
}

PrefillRows prefill_rows(const PrefillSpan& span,
                         const Basis& basis,
                         Position done,
                         std::int64_t count) {
  const KvReuse& reuse = span.reuse;
  CHECK(count > 0 && done >= reuse.start && done + count <= chunk_border(span, done));
  PrefillRows rows{.first = done, .count = count};
  rows.encoder_only = done < encoder_end(span);
  rows.finishes_prompt = keeps_rows(span) && done + count == span.prompt;
  rows.samples = done + count == span.total;
  rows.begins = done == reuse.start;
  rows.encoder_floor = done < reuse.encoder_whole ? reuse.start : basis.replay_floor;
  // The kept rows run with the floor of the last of their chunks.
  const bool cut = reuse.decoder_whole > reuse.decoder_start &&
                   (rows.encoder_only || done < reuse.decoder_whole);
  rows.decoder_floor = cut ? reuse.decoder_start : basis.tail_start;
  return rows;
}

}  // namespace shoal
