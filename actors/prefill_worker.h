// One prefill rank: turns orders into a step plan, launches it, sends the first token and hands the
// sequence over.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

PrefillWorkerActor spawn_prefill_worker(caf::actor_system& system,
                                        ContextPtr node,
                                        std::uint32_t part,
                                        std::uint32_t rank);

}  // namespace shoal
