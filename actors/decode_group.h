// Leader of a decode group: knows what lives on which rank and starts one step after the other for
// all of them.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

DecodeGroupActor spawn_decode_group(caf::actor_system& system, ContextPtr node, std::uint32_t part);

}  // namespace shoal
