// One star: pings out, heartbeats in, a judgement per tick; a lost part is replaced within the
// restart budget.
#include "actors/supervisor.h"

#include <utility>

#include "actors/supervisor_state.h"

namespace shoal {
namespace part {

std::string name(std::uint32_t part) {
  if (part >= kFirstWorker && part < kMembership) {
    constexpr const char* kKinds[kWorkerKinds] = {
        "prefill_worker.", "decode_worker.", "expert_shard."};
    const std::uint32_t worker = part - kFirstWorker;
    return kKinds[worker % kWorkerKinds] + std::to_string(worker / kWorkerKinds);
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
    case kExpertSource:
      return "expert_source";
    case kMembership:
      return "membership";
    case kAutoscaler:
      return "autoscaler";
    case kEpBalancer:
      return "ep_balancer";
    default:
      return "peer." + std::to_string(part - kFirstPeer);
  }
}

}  // namespace part

int severity(PartState state) {
  switch (state) {
    case PartState::kOk:
      return 0;
    case PartState::kBusy:
      return 1;
    case PartState::kLeft:
      return 0;
    case PartState::kStarting:
      return 2;
    case PartState::kDegraded:
      return 3;
    case PartState::kDraining:
      return 4;
    case PartState::kDead:
      return 5;
  }
  return 5;
}

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

}  // namespace

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
  // First the source: what a shard tells it is of the wiring that it has then.
  visit_present(parts.expert_source, part::kExpertSource);
  for (std::uint32_t s = 0; s < parts.expert_shards.size(); ++s) {
    visit_present(parts.expert_shards[s], part::expert_shard(s));
  }
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
  watched.resize(part::count(std::max<std::size_t>(node->devices.size(), node->experts.count())));
  uninformed.start(node);
  if (here().gateway) {
    reset_pulse(part::kGateway);
    monitors.watch(here().gateway, part::kGateway);
  }
  build_pipeline();
  start_ep_balancer();
  if (node->cluster != nullptr) {
    start_cluster();
  }
  judge(node->now());
}

void Supervisor::start_ep_balancer() {
  if (node->expert_balance.group != nullptr && node->options.expert_balance.window > Nanos{0}) {
    ep_balancer = blueprint.ep_balancer();
    here().ep_balancer = ep_balancer;
    monitors.watch(ep_balancer, part::kEpBalancer);
    tell_wiring();
  }
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

void Supervisor::tell_wiring() {
  const Rewire message{std::make_shared<const Wiring>(wiring)};
  for_each_pipeline_part([&message](const auto& actor, std::uint32_t) { notify(actor, message); });
  notify(here().gateway, message);
  notify(wiring.membership, message);
  notify(ep_balancer, message);
  for (const PeerActor& peer : peers) {
    notify(peer, message);
  }
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
  } else if (lost == part::kEpBalancer) {
    start_ep_balancer();
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
  const std::uint32_t rank = (lost - part::kFirstWorker) / part::kWorkerKinds;
  const auto replace = [this, lost](auto& actor, const auto& make, std::uint32_t number) {
    actor = make(number);
    monitors.watch(actor, lost);
  };
  reset_pulse(lost);
  if (lost == part::prefill_worker(rank)) {
    replace(wiring.prefill_workers[rank], blueprint.prefill_worker, rank);
  } else if (lost == part::decode_worker(rank)) {
    replace(wiring.decode_workers[rank], blueprint.decode_worker, rank);
  } else {
    replace(here().expert_shards[rank], blueprint.expert_shard, rank);
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
  here().draining = before.draining;
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
  if (message.part == "ep_balancer") {
    end_actor(ep_balancer);
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

namespace {

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
      [self](const DrainNode&) { self->state.drain(); },
      [self](const ViewPublished& m) { self->state.see(m); },
      [self](const LinkAccepted& m) { self->state.accept(m); },
      [self](const PeerLinked& m) { self->state.peer_linked(m); },
      [self](const PeerUp& m) { self->state.peer_up(m); },
      [self](const PeerDown& m) { self->state.peer_down(m); },
      [self](const PeerDrains& m) { self->state.peer_drains(m); },
      [self](const DrainKnown& m) { self->state.drain_known(m); },
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
