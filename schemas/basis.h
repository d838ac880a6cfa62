// What the numbers of a request depend on besides its tokens: fixed at the first placement, kept by
// every later attempt.
#pragma once

#include <cstdint>

#include "schemas/ids.h"

namespace shoal {

enum class BasisMode : std::uint8_t {
  kExact,    // full mode: every new row runs all layers; prefill, chunked prefill and decode are
             // bit-identical
  kBounded,  // split mode: the decoder half runs from `tail_start`, windows begin at `replay_floor`
};

// Two runs of the same tokens with equal basis give equal bits under any chunking, batch and thread
// count.
struct Basis {
  BasisMode mode = BasisMode::kBounded;
  Position hit = 0;  // H: leading tokens whose global KV was loaded, a multiple of the block
  Position replay_floor = 0;  // lo: first position the encoder's windows hold
  Position tail_start = 0;    // t: first position the decoder half saw; 0 in exact mode
  std::uint64_t lineage = 0;  // hash over the blocks below H

  friend bool operator==(const Basis&, const Basis&) = default;
};

}  // namespace shoal
