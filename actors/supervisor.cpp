// One star: pings out, heartbeats in, a judgement per tick; a lost part is replaced within the
// restart budget.
#include "actors/supervisor.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "actors/policy/health.h"

namespace shoal {
namespace part {

std::string name(std::uint32_t part) {
  if (part >= kFirstWorker && part < kMembership) {
    const std::uint32_t rank = (part - kFirstWorker) / 2;
    return ((part - kFirstWorker) % 2 == 0 ? "prefill_worker." : "decode_worker.") +
           std::to_string(rank);
  }
  if (part >= kPrefillBalancer && part < kPrefillGroup) {
    return "prefill_balancer." + std::to_string(part - kPrefillBalancer);
  }
  switch (part) {
    case kGateway:
      return "gateway";
    case kRouter:
      return "router";
    case kPrefillGroup:
      return "prefill_group";
    case kDecodeBalancer:
      return "decode_balancer";
    case kDecodeGroup:
      return "decode_group";
    case kKvClient:
      return "kv_client";
    case kMembership:
      return "membership";
    case kAutoscaler:
      return "autoscaler";
    default:
      return "peer." + std::to_string(part - kFirstPeer);
  }
}

}  // namespace part

namespace {

PartState part_state(HealthVerdict verdict) {
  switch (verdict) {
    case HealthVerdict::kStarting:
      return PartState::kStarting;
    case HealthVerdict::kOk:
      return PartState::kOk;
    case HealthVerdict::kBusy:
      return PartState::kBusy;
    case HealthVerdict::kDegraded:
      return PartState::kDegraded;
    case HealthVerdict::kDead:
      return PartState::kDead;
  }
  return PartState::kDead;
}

// The worst part speaks for the node; busy parts make a busy node.
int severity(PartState state) {
  switch (state) {
    case PartState::kOk:
      return 0;
    case PartState::kBusy:
      return 1;
    case PartState::kDraining:
      return 2;
    case PartState::kStarting:
      return 3;
    case PartState::kDegraded:
      return 4;
    case PartState::kDead:
      return 5;
  }
  return 5;
}

struct Supervisor {
  static inline const char* name = "supervisor";

  struct Watched {
    bool present = false;
    PartPulse pulse;
    std::uint64_t progress = 0;
    bool lost = false;
  };

  ContextPtr node;
  SupervisorActor me;
  Blueprint blueprint;
  Wiring wiring;
  std::vector<Watched> watched;
  Monitors<std::uint32_t> monitors;
  std::deque<Instant> restarts;
  bool gave_up = false;

  // The cluster.
  std::vector<PeerActor> peers;      // by NodeId; null: this node
  std::vector<std::uint64_t> links;  // by NodeId: the session whose parts are wired in
  MembershipActor owner;             // local, or a proxy while its node is linked
  ViewPtr view = std::make_shared<const View>();
  bool joined = false;  // the newest view has this life of the node

  ~Supervisor() {
    end_pipeline();
    end_actor(here().gateway);
    for (const PeerActor& peer : peers) {
      end_actor(peer);
    }
    end_actor(wiring.membership);
    end_actor(wiring.autoscaler);
  }

  void start();
  void tick();
  void heartbeat(const Heartbeat& message);
  void end_part(const EndPart& message);
  void lose(std::uint32_t lost, const std::string& reason);
  void see(const ViewPublished& message);
  void accept(const LinkAccepted& message) const;
  void peer_linked(const PeerLinked& message);
  void peer_up(const PeerUp& message);
  void peer_down(const PeerDown& message);

  template <class Visit>
  void for_each_pipeline_part(Visit visit) const;
  void start_cluster();
  bool needs_link(NodeId remote) const;
  bool is_up(NodeId id) const;
  NodeRoles reached_at(NodeId id) const;
  void start_peer(NodeId remote);
  void start_membership();
  void start_autoscaler();
  void begin_life();
  void beat() const;
  bool is_given_up() const;
  void set_transport_peers() const;
  void drop_node(NodeId remote);
  void reset_links(const std::string& reason) const;
  void build_pipeline();
  void end_pipeline();
  void rebuild(const std::string& because_of);
  void replace_worker(std::uint32_t lost);
  void tell_wiring();
  bool within_budget();
  void stop_serving();
  void reset_pulse(std::uint32_t part);
  void judge(Instant now);
  void judge_nodes(NodeHealth& health) const;

  NodeParts& here() { return wiring.nodes[wiring.self.value]; }
};

// From the end of the pipeline to its beginning: a part hears who follows it before anybody can
// send it work. Parts that the node does not have are left out.
template <class Visit>
void Supervisor::for_each_pipeline_part(Visit visit) const {
  const auto visit_present = [&visit](const auto& actor, std::uint32_t part) {
    if (actor) {
      visit(actor, part);
    }
  };
  const NodeParts& parts = wiring.here();
  visit_present(wiring.kv_client, part::kKvClient);
  for (std::uint32_t r = 0; r < wiring.decode_workers.size(); ++r) {
    visit_present(wiring.decode_workers[r], part::decode_worker(r));
  }
  for (std::uint32_t r = 0; r < wiring.prefill_workers.size(); ++r) {
    visit_present(wiring.prefill_workers[r], part::prefill_worker(r));
  }
  visit_present(parts.decode_group, part::kDecodeGroup);
  visit_present(parts.decode_balancer, part::kDecodeBalancer);
  visit_present(parts.prefill_group, part::kPrefillGroup);
  for (std::uint32_t k = 0; k < kPrefillClasses; ++k) {
    visit_present(parts.prefill_balancers[k], part::kPrefillBalancer + k);
  }
  visit_present(parts.router, part::kRouter);
}

void Supervisor::start() {
  watched.resize(part::count(node->devices.size()));
  if (here().gateway) {
    reset_pulse(part::kGateway);
    monitors.watch(here().gateway, part::kGateway);
  }
  build_pipeline();
  if (node->cluster != nullptr) {
    start_cluster();
  }
  judge(node->now());
}

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

void Supervisor::build_pipeline() {
  ++here().session;
  blueprint.pipeline(wiring);
  for_each_pipeline_part([this](const auto& actor, std::uint32_t part) {
    reset_pulse(part);
    monitors.watch(actor, part);
  });
  tell_wiring();
}

void Supervisor::end_pipeline() {
  for_each_pipeline_part([this](const auto& actor, std::uint32_t) {
    monitors.forget(actor);
    end_actor(actor);
  });
}

// What this node held for others is gone, and they learn it from their links.
void Supervisor::rebuild(const std::string& because_of) {
  ++node->metrics.pipelines_rebuilt;
  end_pipeline();
  build_pipeline();
  reset_links("the pipeline was rebuilt");
  node->log.event(LogLevel::kWarning, "pipeline.rebuilt", {{"because_of", because_of}});
}

void Supervisor::reset_links(const std::string& reason) const {
  for (const PeerActor& peer : peers) {
    notify(peer, ResetLink{reason});
  }
}

void Supervisor::tell_wiring() {
  const Rewire message{std::make_shared<const Wiring>(wiring)};
  for_each_pipeline_part([&message](const auto& actor, std::uint32_t) { notify(actor, message); });
  notify(here().gateway, message);
  notify(wiring.membership, message);
  for (const PeerActor& peer : peers) {
    notify(peer, message);
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

void Supervisor::lose(std::uint32_t lost, const std::string& reason) {
  ++node->metrics.parts_lost;
  node->log.event(LogLevel::kError, "part.lost", {{"part", part::name(lost)}, {"reason", reason}});
  if (lost < part::kMembership) {
    watched[lost].lost = true;
  }
  if (lost == part::kGateway || gave_up || !within_budget()) {
    stop_serving();
  } else if (lost == part::kMembership) {
    start_membership();
    tell_wiring();
    reset_links("the membership was restarted");
  } else if (lost == part::kAutoscaler) {
    start_autoscaler();
    tell_wiring();
  } else if (lost >= part::kFirstPeer) {
    const NodeId remote{lost - part::kFirstPeer};
    drop_node(remote);
    start_peer(remote);
    tell_wiring();
  } else if (lost >= part::kFirstWorker) {
    replace_worker(lost);
  } else {
    rebuild(part::name(lost));
  }
}

// Its group notices the loss itself and hears of the successor here.
void Supervisor::replace_worker(std::uint32_t lost) {
  const std::uint32_t rank = (lost - part::kFirstWorker) / 2;
  reset_pulse(lost);
  if (lost == part::prefill_worker(rank)) {
    wiring.prefill_workers[rank] = blueprint.prefill_worker(rank);
    monitors.watch(wiring.prefill_workers[rank], lost);
  } else {
    wiring.decode_workers[rank] = blueprint.decode_worker(rank);
    monitors.watch(wiring.decode_workers[rank], lost);
  }
  tell_wiring();
  node->log.event(LogLevel::kWarning, "worker.replaced", {{"part", part::name(lost)}});
}

bool Supervisor::within_budget() {
  const Instant now = node->now();
  while (!restarts.empty() && now - restarts.front() > node->options.restart_window) {
    restarts.pop_front();
  }
  if (static_cast<std::int64_t>(restarts.size()) >= node->options.restarts) {
    return false;
  }
  restarts.push_back(now);
  return true;
}

// A part that cannot be kept alive: better refuse than accept what will not be answered.
void Supervisor::stop_serving() {
  node->serving = false;
  if (!std::exchange(gave_up, true)) {
    node->log.event(LogLevel::kError, "node.dead", {{"action", "restart the process"}});
  }
  end_pipeline();
  const NodeParts before = here();
  here() = NodeParts{};
  here().session = before.session + 1;
  here().gateway = before.gateway;
  wiring.prefill_workers.clear();
  wiring.decode_workers.clear();
  wiring.kv_client = nullptr;
  tell_wiring();
  reset_links("the node cannot serve");
  judge(node->now());
}

void Supervisor::reset_pulse(std::uint32_t part) {
  const Instant now = node->now();
  watched[part] = Watched{};
  watched[part].present = true;
  watched[part].pulse.started = now;
  watched[part].pulse.last_progress = now;
}

void Supervisor::tick() {
  judge(node->now());
  notify(here().gateway, Ping{});
  for_each_pipeline_part([](const auto& actor, std::uint32_t) { notify(actor, Ping{}); });
  if (node->cluster != nullptr) {
    beat();
  }
}

void Supervisor::heartbeat(const Heartbeat& message) {
  Watched& part = watched.at(message.part);
  const Instant now = node->now();
  const bool is_first = !std::exchange(part.pulse.heard, true);
  part.pulse.last_heartbeat = now;
  if (message.progress != part.progress || !message.has_work) {
    part.pulse.last_progress = now;
  }
  part.progress = message.progress;
  part.pulse.has_work = message.has_work;
  part.pulse.trouble = message.trouble;
  if (is_first) {
    judge(now);  // readiness does not wait for the next tick
  }
}

void Supervisor::judge(Instant now) {
  NodeHealth health;
  health.state = PartState::kOk;
  for (std::uint32_t p = 0; p < watched.size(); ++p) {
    if (!watched[p].present) {
      continue;
    }
    Health verdict = health_of(watched[p].pulse, node->options.health, now);
    if (gave_up || watched[p].lost) {
      verdict = {HealthVerdict::kDead, "lost and not replaced"};
    }
    const PartState state = part_state(verdict.verdict);
    health.parts.push_back(
        {part::name(p), state, std::string(verdict.cause), now - watched[p].pulse.last_progress});
    if (severity(state) > severity(health.state)) {
      health.state = state;
    }
  }
  if (node->cluster != nullptr) {
    judge_nodes(health);
  }
  node->health.publish(std::move(health), now);
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

void Supervisor::end_part(const EndPart& message) {
  if (message.part == "gateway") {
    end_actor(here().gateway);
  }
  if (message.part == "membership") {
    end_actor(wiring.membership);
  }
  if (message.part == "autoscaler") {
    end_actor(wiring.autoscaler);
  }
  for (std::uint32_t n = 0; n < peers.size(); ++n) {
    if (part::name(part::kFirstPeer + n) == message.part) {
      end_actor(peers[n]);
    }
  }
  for_each_pipeline_part([&message](const auto& actor, std::uint32_t part) {
    if (part::name(part) == message.part) {
      end_actor(actor);
    }
  });
}

SupervisorActor::behavior_type supervisor(SupervisorActor::stateful_pointer<Supervisor> self,
                                          ContextPtr node,
                                          GatewayActor gateway,
                                          Blueprint blueprint) {
  Supervisor& state = self->state;
  state.node = std::move(node);
  state.me = self;
  state.blueprint = std::move(blueprint);
  state.wiring.supervisor = self;
  if (state.node->cluster != nullptr) {
    state.wiring.self = state.node->cluster->self;
    state.wiring.nodes.resize(state.node->cluster->topology.nodes.size());
  }
  state.here().gateway = std::move(gateway);
  state.monitors.start(
      self, [&state](std::uint32_t part, const std::string& reason) { state.lose(part, reason); });
  state.start();
  send_after(self, Nanos{0}, Tick{});
  return {
      [self](const Tick&) {
        self->state.tick();
        send_after(self, self->state.node->options.health.heartbeat, Tick{});
      },
      [self](const Heartbeat& m) { self->state.heartbeat(m); },
      [self](const EndPart& m) { self->state.end_part(m); },
      [self](const ViewPublished& m) { self->state.see(m); },
      [self](const LinkAccepted& m) { self->state.accept(m); },
      [self](const PeerLinked& m) { self->state.peer_linked(m); },
      [self](const PeerUp& m) { self->state.peer_up(m); },
      [self](const PeerDown& m) { self->state.peer_down(m); },
  };
}

}  // namespace

SupervisorActor spawn_supervisor(caf::actor_system& system,
                                 ContextPtr node,
                                 GatewayActor gateway,
                                 Blueprint blueprint) {
  return system.spawn(supervisor, std::move(node), std::move(gateway), std::move(blueprint));
}

}  // namespace shoal
