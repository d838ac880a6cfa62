// The exchange between sources and shards, each at any node. A part for this node's own shard is
// handed over as it is; one for another node is a message to it, and so is its answer.
#pragma once

#include <memory>

#include "transport/expert_exchange.h"

namespace shoal::transport {

std::unique_ptr<ExpertExchange> make_shard_exchange(ExpertExchangeParts parts);

}  // namespace shoal::transport
