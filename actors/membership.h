// The owner of the cluster's view: hears every node, decides who is in, has it agreed by the
// cluster store, and only then tells everybody it can reach.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

MembershipActor spawn_membership(caf::actor_system& system, ContextPtr node);

}  // namespace shoal
