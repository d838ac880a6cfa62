// The node among others: who it is linked to, which life of it the others know, and what it misses
// when one of them cannot be reached.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "actors/supervisor_state.h"

namespace shoal {

void Supervisor::start_cluster() {
  peers.resize(wiring.nodes.size());
  links.resize(wiring.nodes.size());
  begin_life();
  if (node->cluster->topology.owner == wiring.self) {
    start_autoscaler();
    start_membership();
  }
  for (std::uint32_t n = 0; n < peers.size(); ++n) {
    if (needs_link(NodeId{n})) {
      start_peer(NodeId{n});
    }
  }
  tell_wiring();
}

// Prefill and decode nodes say nothing to each other: KV goes by the transport. So a cluster has
// links and heartbeats in the number of its nodes, not in its square.
bool Supervisor::needs_link(NodeId remote) const {
  const Topology& topology = node->cluster->topology;
  const auto talks_to_all = [&topology](NodeId id) {
    const NodeRoles& roles = topology.nodes[id.value].roles;
    return roles.gateway || roles.router || id == topology.owner;
  };
  return remote != wiring.self && (talks_to_all(remote) || talks_to_all(wiring.self));
}

void Supervisor::start_membership() {
  wiring.membership = blueprint.membership();
  owner = wiring.membership;
  monitors.watch(wiring.membership, part::kMembership);
  notify(owner, NodeLinked{wiring.self, me});
}

void Supervisor::start_autoscaler() {
  wiring.autoscaler = blueprint.autoscaler();
  monitors.watch(wiring.autoscaler, part::kAutoscaler);
  notify(wiring.autoscaler, ViewPublished{view});
}

void Supervisor::start_peer(NodeId remote) {
  peers[remote.value] = blueprint.peer(me, remote);
  monitors.watch(peers[remote.value], part::kFirstPeer + remote.value);
  notify(peers[remote.value], PeerView{view});
}

// Nobody can take this life for an earlier one.
void Supervisor::begin_life() {
  ClusterContext& cluster = *node->cluster;
  cluster.incarnation =
      cluster.incarnation == 0 ? (cluster.process << kLifeBits) + 1 : cluster.incarnation + 1;
  joined = false;
}

void Supervisor::beat() const {
  NodeBeat message{wiring.self, IncarnationId{node->cluster->incarnation}, view->epoch};
  for (std::size_t r = 0; r < message.demand.ns.size(); ++r) {
    message.demand.ns[r] = node->metrics.demand_ns[r];
  }
  notify(owner, message);
}

void Supervisor::reset_links(const std::string& reason) const {
  for (const PeerActor& peer : peers) {
    notify(peer, ResetLink{reason});
  }
}

void Supervisor::see(const ViewPublished& message) {
  if (message.view->epoch <= view->epoch) {
    return;
  }
  view = message.view;
  node->log.event(
      LogLevel::kDebug, "node.view", {{"epoch", view->epoch}, {"members", view->members_text()}});
  const bool is_in = view->has(wiring.self, IncarnationId{node->cluster->incarnation});
  if (is_given_up()) {
    // Nothing of this life may be heard any more.
    ++node->metrics.times_fenced;
    node->log.event(LogLevel::kWarning, "node.fenced", {{"epoch", view->epoch}});
    begin_life();
    rebuild("the view");
  } else if (is_in && !joined) {
    node->log.event(LogLevel::kInfo, "node.joined", {{"epoch", view->epoch}});
    joined = true;
  }
  set_transport_peers();
  for (const PeerActor& peer : peers) {
    notify(peer, PeerView{view});
  }
  notify(wiring.autoscaler, message);
  beat();
}

// The others have left this life out; one that never saw the view it was in finds itself fenced.
bool Supervisor::is_given_up() const {
  const IncarnationId life{node->cluster->incarnation};
  if (joined) {
    return !view->has(wiring.self, life);
  }
  return std::any_of(view->fenced.begin(), view->fenced.end(), [this, life](const Member& fenced) {
    return fenced.node == wiring.self && fenced.incarnation == life;
  });
}

void Supervisor::set_transport_peers() const {
  const ClusterContext& cluster = *node->cluster;
  for (std::uint32_t n = 0; n < cluster.topology.nodes.size(); ++n) {
    const Member* member = view->find(NodeId{n});
    if (NodeId{n} == wiring.self) {
      continue;
    }
    if (member == nullptr) {
      cluster.transport->forget_peer(NodeId{n});
    } else {
      cluster.transport->set_peer({NodeId{n},
                                   process_of(member->incarnation),
                                   cluster.topology.nodes[n].host,
                                   cluster.topology.nodes[n].bulk_port});
    }
  }
}

void Supervisor::accept(const LinkAccepted& message) const {
  if (message.from.value < peers.size()) {
    notify(peers[message.from.value], LinkUp{message.link});
  }
}

void Supervisor::peer_linked(const PeerLinked& message) {
  if (message.membership) {
    owner = message.membership;
    beat();
  }
  notify(wiring.membership, NodeLinked{message.node, message.supervisor});
}

void Supervisor::peer_up(const PeerUp& message) {
  NodeParts& parts = wiring.nodes.at(message.node.value);
  const std::uint64_t session = parts.session + 1;
  parts = message.parts;
  parts.session = session;
  parts.link = message.link;
  links[message.node.value] = message.link;
  tell_wiring();
  judge(node->now());
}

void Supervisor::peer_down(const PeerDown& message) {
  notify(wiring.membership, NodeUnlinked{message.node});
  if (message.node == node->cluster->topology.owner && owner != wiring.membership) {
    owner = nullptr;
  }
  if (links.at(message.node.value) == message.link) {
    drop_node(message.node);
    judge(node->now());
  }
}

void Supervisor::drop_node(NodeId remote) {
  links[remote.value] = 0;
  const std::uint64_t session = wiring.nodes[remote.value].session + 1;
  wiring.nodes[remote.value] = NodeParts{};
  wiring.nodes[remote.value].session = session;
  tell_wiring();
}

// A node whose link is needed and gone is missing here, whatever the view says.
bool Supervisor::is_up(NodeId id) const {
  if (id == wiring.self) {
    return joined;
  }
  return needs_link(id) ? links[id.value] != 0 : view->find(id) != nullptr;
}

// Behind a link the parts say it, elsewhere the topology.
NodeRoles Supervisor::reached_at(NodeId id) const {
  if (id != wiring.self && !needs_link(id)) {
    return is_up(id) ? node->cluster->topology.nodes[id.value].roles : NodeRoles{};
  }
  const NodeParts& parts = wiring.nodes[id.value];
  return {.router = static_cast<bool>(parts.router),
          .prefill = static_cast<bool>(parts.prefill_group),
          .decode = static_cast<bool>(parts.decode_group)};
}

// Without a router, a prefill and a decode somewhere nothing can be served.
void Supervisor::judge_nodes(NodeHealth& health) const {
  NodeRoles reached;
  for (std::uint32_t n = 0; n < wiring.nodes.size(); ++n) {
    const NodeId id{n};
    const NodeRoles roles = reached_at(id);
    reached.router |= roles.router;
    reached.prefill |= roles.prefill;
    reached.decode |= roles.decode;
    PartHealth part{"node." + node->cluster->topology.nodes[n].name, PartState::kOk, "", Nanos{0}};
    if (!is_up(id)) {
      part.state = PartState::kDegraded;
      part.cause = id == wiring.self ? "not a member of the cluster" : "cannot be reached";
    }
    health.parts.push_back(std::move(part));
  }
  const bool complete = reached.router && reached.prefill && reached.decode;
  const bool all_up =
      std::all_of(health.parts.begin(), health.parts.end(), [](const PartHealth& part) {
        return part.state == PartState::kOk || part.state == PartState::kBusy;
      });
  const PartState cluster = !complete ? PartState::kDead
                            : all_up  ? PartState::kOk
                                      : PartState::kDegraded;
  if (severity(cluster) > severity(health.state)) {
    health.state = cluster;
  }
}

}  // namespace shoal
