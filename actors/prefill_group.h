// Leader of a prefill group: reserves KV, plans each step over its ranks (policy/prefill_schedule),
// reports its backlog.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

PrefillGroupActor spawn_prefill_group(caf::actor_system& system,
                                      ContextPtr node,
                                      std::uint32_t part);

}  // namespace shoal
