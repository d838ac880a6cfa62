// Follows the shards that serve this node's device: asks them for placements, hears what they hold,
// and gives up at once what was asked of a node that is lost.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

ExpertSourceActor spawn_expert_source(caf::actor_system& system,
                                      ContextPtr node,
                                      std::uint32_t part);

}  // namespace shoal
