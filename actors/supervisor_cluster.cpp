// The node among others: who it is linked to, which life of it the others know, and what it misses
// when one of them cannot be reached.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "actors/supervisor_state.h"

namespace shoal {
namespace {

void add_roles(NodeRoles& to, const NodeRoles& roles) {
  to.router |= roles.router;
  to.prefill |= roles.prefill;
  to.decode |= roles.decode;
  to.experts |= roles.experts;
}

bool can_serve(const NodeRoles& roles, bool needs_experts) {
  return roles.router && roles.prefill && roles.decode && (roles.experts || !needs_experts);
}

}  // namespace

void Supervisor::start_cluster() {
  peers.resize(wiring.nodes.size());
  links.resize(wiring.nodes.size());
  left.resize(wiring.nodes.size());
  informed.resize(wiring.nodes.size());
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
// links and heartbeats in the number of its nodes, not in its square; but shards are known to all
// devices whose experts they have.
bool Supervisor::needs_link(NodeId remote) const {
  const Topology& topology = node->cluster->topology;
  const NodeRoles& mine = topology.nodes[wiring.self.value].roles;
  const NodeRoles& theirs = topology.nodes[remote.value].roles;
  const auto talks_to_all = [&topology](NodeId id) {
    const NodeRoles& roles = topology.nodes[id.value].roles;
    return roles.gateway || roles.router || id == topology.owner;
  };
  const bool share_experts =
      (mine.experts && theirs.has_device()) || (mine.has_device() && theirs.experts);
  return remote != wiring.self &&
         (talks_to_all(remote) || talks_to_all(wiring.self) || share_experts);
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
  left.at(message.node.value) = false;
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
  count_uninformed();
  tell_wiring();
  judge(node->now());
}

void Supervisor::peer_down(const PeerDown& message) {
  left.at(message.node.value) = message.left;
  notify(wiring.membership, NodeUnlinked{message.node, message.left});
  if (message.node == node->cluster->topology.owner && owner != wiring.membership) {
    owner = nullptr;
  }
  if (links.at(message.node.value) == message.link) {
    drop_node(message.node);
    judge(node->now());
  }
}

// From now on nothing new comes here, and this node's end is no loss to anybody.
void Supervisor::drain() {
  here().draining = true;
  count_uninformed();
  tell_wiring();
  judge(node->now());
  node->open.add(-1);  // of Node::start_draining
}

void Supervisor::drain_known(const DrainKnown& message) {
  informed.at(message.node.value) = message.link;
  count_uninformed();
}

void Supervisor::count_uninformed() {
  std::size_t count = 0;
  for (std::size_t n = 0; n < links.size() && node->draining; ++n) {
    count += links[n] != 0 && links[n] != informed[n] ? 1 : 0;
  }
  uninformed.set(count);
}

// Before its session is open here the peer keeps it in mind.
void Supervisor::peer_drains(const PeerDrains& message) {
  if (links.at(message.node.value) == message.link) {
    wiring.nodes[message.node.value].draining = true;
    tell_wiring();
    judge(node->now());
  }
}

void Supervisor::drop_node(NodeId remote) {
  links[remote.value] = 0;
  count_uninformed();
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

// It was told to end, and did.
bool Supervisor::has_left(NodeId id) const {
  return !is_up(id) && (left[id.value] || view->has_left(id));
}

// Behind a link the parts say it, elsewhere the topology.
NodeRoles Supervisor::reached_at(NodeId id) const {
  if (id != wiring.self && !needs_link(id)) {
    return is_up(id) ? node->cluster->topology.nodes[id.value].roles : NodeRoles{};
  }
  const NodeParts& parts = wiring.nodes[id.value];
  return {.router = static_cast<bool>(parts.router),
          .prefill = static_cast<bool>(parts.prefill_group),
          .decode = static_cast<bool>(parts.decode_group),
          .experts = !parts.expert_shards.empty()};
}

PartHealth Supervisor::judge_node(NodeId id) const {
  PartHealth part{.name = "node." + node->cluster->topology.nodes[id.value].name,
                  .state = PartState::kOk,
                  .cause = {}};
  if (has_left(id)) {
    part.state = PartState::kLeft;
    part.cause = "it was told to end";
  } else if (!is_up(id)) {
    part.state = PartState::kDegraded;
    part.cause = id == wiring.self ? "not a member of the cluster" : "cannot be reached";
  } else if (wiring.nodes[id.value].draining) {
    part.state = PartState::kDraining;
    part.cause = "it was told to end, and takes nothing new";
  }
  return part;
}

// Without a router, a prefill and a decode somewhere nothing can be served, nor without any shard
// where devices have their experts on others; where the last ones drain, nothing new can.
void Supervisor::judge_nodes(NodeHealth& health) const {
  NodeRoles reached;
  NodeRoles open;
  bool degraded = false;
  bool needs_experts = false;
  for (std::uint32_t n = 0; n < wiring.nodes.size(); ++n) {
    const NodeRoles roles = reached_at(NodeId{n});
    needs_experts |= node->cluster->topology.nodes[n].roles.experts;
    add_roles(reached, roles);
    add_roles(open, wiring.nodes[n].draining ? NodeRoles{} : roles);
    health.parts.push_back(judge_node(NodeId{n}));
    degraded |= health.parts.back().state == PartState::kDegraded;
  }
  const PartState cluster = !can_serve(reached, needs_experts) ? PartState::kDead
                            : !can_serve(open, needs_experts)  ? PartState::kDraining
                            : degraded                         ? PartState::kDegraded
                                                               : PartState::kOk;
  if (severity(cluster) > severity(health.state)) {
    health.state = cluster;
  }
}

}  // namespace shoal
