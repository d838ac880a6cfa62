// The node's way to the KV store: what of a prompt is there, blocks out of it, blocks into it.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

KvClientActor spawn_kv_client(caf::actor_system& system, ContextPtr node, std::uint32_t part);

}  // namespace shoal
