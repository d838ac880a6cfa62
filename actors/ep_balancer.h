// Where experts go next, from what the gate chose: counts a window, has policy/expert_balance.h
// plan and the group place in the background, one plan at a time. What fails, is late or is not
// heard of again leaves the placement in force as it is; the next window plans anew. A new one
// after a loss begins to learn again.
//
// On a node whose experts are on its shards; where they are on nodes of their own, one for the
// cluster, on the node that owns the membership. It asks all sources of rows how they are and what
// they were given, has one of them bring a placement about, and tells shards when nobody uses the
// one before any more. While that node is away experts stay where they are.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

EpBalancerActor spawn_ep_balancer(caf::actor_system& system, ContextPtr node);

}  // namespace shoal
