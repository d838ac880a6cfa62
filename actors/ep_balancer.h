// Where experts go next, from what the gate chose: counts a window, has policy/expert_balance.h
// plan and the group place in the background, one plan at a time. What fails, is late or is not
// heard of again leaves the placement in force as it is; the next window plans anew. On a node
// whose experts are on shards; a new one after a loss begins to learn again.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

EpBalancerActor spawn_ep_balancer(caf::actor_system& system, ContextPtr node);

}  // namespace shoal
