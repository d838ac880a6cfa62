// The queue of one length class: holds requests until a prefill group has room, then picks the
// group (policy/prefill_balancer).
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

PrefillBalancerActor spawn_prefill_balancer(caf::actor_system& system,
                                            ContextPtr node,
                                            std::uint32_t part,
                                            int length_class);

}  // namespace shoal
