// The queue before decode: picks the rank of each answer (policy/decode_balancer) and holds it
// until a batch has a place.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

DecodeBalancerActor spawn_decode_balancer(caf::actor_system& system,
                                          ContextPtr node,
                                          std::uint32_t part);

}  // namespace shoal
