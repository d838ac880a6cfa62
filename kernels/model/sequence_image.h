// A sequence of the model in an image: the covered entries of its blocks, then its window rows,
// those of the draft stages, the raw rows of the last pairs and the last tokens, as many as the
// state holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/kv_arena.h"
#include "kernels/kv_image.h"
#include "kernels/model/config.h"
#include "kernels/model/sequence_state.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal::kernels {

// Geometry of everything an image holds, for KvImageFit.
std::string image_layout(const ModelConfig& config, const KvLayout& layout);

// Where a sequence lives. The block table covers the tokens that are moved.
struct SequencePlace {
  const ModelConfig& config;
  KvArena& arena;
  SequenceState& state;
  std::span<const BlockId> blocks;
};

// No tail is larger.
std::int64_t tail_bytes(const ModelConfig& config, const KvLayout& layout);

// Kept rows do not travel: kInvalid while the prompt is unfinished.
Result<void> write_sequence(const SequencePlace& from,
                            const SequenceSpan& span,
                            KvImageWriter& out);

// Into a cleared state, which may end before the image does (0 < span.tokens <= in.tokens()); after
// an error both state and blocks hold parts of the image. Reads everything, and accepts no position
// or token that a later step could stumble over.
Result<void> read_sequence(KvImageReader& in, const SequenceSpan& span, const SequencePlace& to);

}  // namespace shoal::kernels
