// One expert shard of this process: its engine and its place at the exchange live as long as the
// actor. Rows go past it; what it is sent says which experts to hold.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

ExpertShardActor spawn_expert_shard(caf::actor_system& system,
                                    ContextPtr node,
                                    std::uint32_t part,
                                    std::uint32_t shard);

}  // namespace shoal
