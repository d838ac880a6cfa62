// Local stand-ins for the parts of another node: typed actors that turn each message that may leave
// the process into bytes for the link. They live as long as the session they were made for.
#pragma once

#include <cstdint>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

struct ProxySeat {
  ContextPtr node;
  PeerActor peer;
  std::uint64_t link = 0;  // session
};

SupervisorActor spawn_supervisor_proxy(caf::actor_system& system, const ProxySeat& seat);
MembershipActor spawn_membership_proxy(caf::actor_system& system, const ProxySeat& seat);
// Everything that the node has and this one may address.
NodeParts spawn_proxies(caf::actor_system& system,
                        const ProxySeat& seat,
                        const TopologyNode& remote);
void end_proxies(const NodeParts& parts);

}  // namespace shoal
