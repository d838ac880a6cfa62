// A sequence of the model in an image: the covered entries of its blocks, then its window rows, the
// open pair and the last tokens.
#pragma once

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

// Rows 0 .. tokens - 1. Kept rows do not travel: kInvalid while the prompt is unfinished.
Result<void> write_sequence(const SequencePlace& from, Position tokens, KvImageWriter& out);

// Into a cleared state; after an error both state and blocks hold parts of the image. Reads
// everything, and accepts no position or token that a later step could stumble over.
Result<void> read_sequence(KvImageReader& in, const SequencePlace& to);

}  // namespace shoal::kernels
