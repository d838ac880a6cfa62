// Which blocks of recorded prompts a block store of some size would have held, by its own index and
// eviction. Definitions: a prompt hits its longest run of leading blocks that are there, at most
// all but its last token; after that all its full blocks are there at once.
#pragma once

#include <cstdint>
#include <span>

#include "tests/sim/trace_file.h"

namespace shoal::sim {

enum class KvEviction : std::uint8_t {
  kWorth,    // as it is shipped (policy/kv_worth.h)
  kLru,      // what was used longest ago goes first
  kOptimal,  // Belady: what is used last from now on goes first; it knows the future
};

struct KvReplay {
  std::int64_t requests = 0;
  std::int64_t input_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t blocks = 0;  // there in the end

  double hit_rate() const {
    return input_tokens == 0 ? 0
                             : static_cast<double>(hit_tokens) / static_cast<double>(input_tokens);
  }
};

// At most `capacity` blocks are kept behind a request.
KvReplay replay_kv(std::span<const TraceRequest> requests,
                   std::int64_t capacity,
                   KvEviction eviction);

// How many different blocks there are: the capacity at which nothing is evicted.
std::int64_t distinct_blocks(std::span<const TraceRequest> requests);

}  // namespace shoal::sim
