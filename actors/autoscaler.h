// How many nodes of each role the cluster should have, from what its nodes say came in: decided by
// policy/autoscale.h, made so through the port provisioner.h. On the owner of the membership; a new
// one after a loss begins to learn again.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

AutoscalerActor spawn_autoscaler(caf::actor_system& system, ContextPtr node);

}  // namespace shoal
