// The ledger: one entry per open answer, one owner, a deadline on every state; the rules are
// policy/request_machine.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

RouterActor spawn_router(caf::actor_system& system, ContextPtr node, std::uint32_t part);

}  // namespace shoal
