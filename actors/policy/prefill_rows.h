// Which rows of a sequence run next and through which layers. Bounded: the prompt through the
// encoder half, its last window kept for the decoder half, which runs once at the prompt's end;
// tokens a client already has (a later attempt) follow as decode rows, because that is how they
// were computed the first time. Exact, and behind the prompt: rows that only rebuild windows run
// the encoder half, all others every layer.
#pragma once

#include <cstdint>

#include "actors/policy/kv_reuse.h"
#include "schemas/basis.h"
#include "schemas/ids.h"

namespace shoal {

struct PrefillSpan {
  Position prompt = 0;
  Position total =
      0;  // prompt plus forced tokens; the token sampled at the end is at this position
  BasisMode mode = BasisMode::kBounded;
  KvReuse reuse{};
};

struct PrefillRows {
  Position first = 0;
  std::int64_t count = 0;
  bool encoder_only = false;     // else every layer
  bool finishes_prompt = false;  // the decoder half runs on the kept rows
  bool samples = false;          // the last row's logits give the next token
  bool begins = false;           // the sequence starts with these rows
  Position encoder_floor = 0;    // windows of each half see nothing before
  Position decoder_floor = 0;
};

// Where the next chunk must end at the latest: stacks and floors never mix within a chunk.
Position chunk_border(const PrefillSpan& span, Position done);

// How many tokens up to done + count run the decoder half with these rows: none, all of them, or at
// the prompt's end those that were kept. count must not cross chunk_border().
std::int64_t deep_rows(const PrefillSpan& span, Position done, std::int64_t count);

// Rows [done, done + count) of the span; count must not cross chunk_border().
PrefillRows prefill_rows(const PrefillSpan& span,
                         const Basis& basis,
                         Position done,
                         std::int64_t count);

}  // namespace shoal
