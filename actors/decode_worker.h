// One decode rank: keeps the running sequences, launches a step of all of them, sends each step's
// tokens to the gateway.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

DecodeWorkerActor spawn_decode_worker(caf::actor_system& system,
                                      ContextPtr node,
                                      std::uint32_t part,
                                      std::uint32_t rank);

}  // namespace shoal
