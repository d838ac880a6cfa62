// The one link to another node: dials, says hello, opens a session when both nodes are in the view,
// carries envelopes under credit, and loses everything at once when the link, the view or the other
// side's pulse goes.
#pragma once

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

// Of the frames on a link; both sides must have it.
inline constexpr std::uint32_t kLinkVersion = 3;

PeerActor spawn_peer(caf::actor_system& system,
                     ContextPtr node,
                     SupervisorActor supervisor,
                     NodeId remote);

}  // namespace shoal
