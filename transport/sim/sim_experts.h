// The row `sim` of the expert exchange: every shard at a node of its own, with real messages whose
// delays and losses follow from a seed.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/expert_exchange.h"

namespace shoal::transport {

struct SimExpertParts {
  Scheduler scheduler;  // also runs the work of the shards that are given none
  std::uint64_t seed = 1;
  Nanos longest_delay{0};               // of a message: drawn evenly from 0 on
  std::int64_t lost_per_million = 0;    // messages that never arrive
  std::int64_t broken_per_million = 0;  // whose connection is cut
  ExpertLimits limits{};
};

// The nodes of parts are not looked at: a shard is found by its number. end() is the death of its
// node. serve() and end() of one shard are for one thread.
std::unique_ptr<ExpertExchange> make_sim_experts(SimExpertParts parts);

}  // namespace shoal::transport
