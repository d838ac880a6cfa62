// Between the HTTP shards and the router: knows which shard owns an answer, and tells it when its
// attempt died with the router.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

GatewayActor spawn_gateway(caf::actor_system& system, ContextPtr node, std::uint32_t part);

}  // namespace shoal
