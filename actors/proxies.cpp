// One behaviour an interface: what may leave is forwarded, what is local by nature is nothing to a
// remote part.
#include "actors/proxies.h"

#include <utility>

#include "actors/wire_messages.h"

namespace shoal {
namespace {

using wire_codec::Role;

struct Proxy {
  static inline const char* name = "proxy";

  ProxySeat seat;
  Role role{};
  std::uint32_t instance = 0;

  template <class Message>
  void forward(const Message& message) {
    static_assert(wire_codec::kKind<Message> != 0);
    notify(seat.peer,
           Outgoing{seat.link,
                    static_cast<std::uint32_t>(role),
                    instance,
                    wire_codec::kKind<Message>,
                    wire_codec::encode(message, seat.node->now())});
  }
};

// Handler of a message that is forwarded, and of one that stays in its process.
template <class Message, class Self>
auto forwards(Self self) {
  return [self](const Message& message) { self->state.forward(message); };
}

template <class Message>
auto stays() {
  return [](const Message&) {};
}

template <class Actor>
using Pointer = typename Actor::template stateful_pointer<Proxy>;

GatewayActor::behavior_type gateway(Pointer<GatewayActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          stays<Submit>(),
          stays<StopStream>(),
          stays<CloseRequest>(),
          forwards<TokenBatch>(self),
          forwards<AttemptFailed>(self),
          forwards<RequestNoted>(self)};
}

RouterActor::behavior_type router(Pointer<RouterActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          stays<Tick>(),
          forwards<Submit>(self),
          forwards<StopStream>(self),
          forwards<CloseRequest>(self),
          stays<KvFound>(),
          forwards<KvShortened>(self),
          forwards<TailKept>(self),
          forwards<KvNews>(self),
          stays<PrefillPlaced>(),
          forwards<PrefillStarted>(self),
          forwards<PrefillDone>(self),
          stays<DecodePlaced>(),
          forwards<DecodeJoined>(self),
          stays<DecodeMoving>(),
          forwards<DecodeYielded>(self),
          forwards<AnswerDone>(self),
          forwards<AttemptLost>(self),
          stays<AttemptRefused>()};
}

PrefillBalancerActor::behavior_type prefill_balancer(Pointer<PrefillBalancerActor> self,
                                                     Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          stays<PlacePrefill>(),
          stays<ReleaseAttempt>(),
          forwards<PrefillLoad>(self)};
}

PrefillGroupActor::behavior_type prefill_group(Pointer<PrefillGroupActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          stays<Tick>(),
          forwards<PlacePrefill>(self),
          forwards<ReleaseAttempt>(self),
          stays<KvLoaded>(),
          stays<KvReleased>(),
          stays<PrefillStepDone>()};
}

DecodeBalancerActor::behavior_type decode_balancer(Pointer<DecodeBalancerActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          stays<PlaceDecode>(),
          stays<ReleaseAttempt>(),
          forwards<DecodeLeft>(self),
          forwards<DecodeRefused>(self),
          forwards<DecodeKept>(self),
          forwards<DecodeLoad>(self)};
}

DecodeGroupActor::behavior_type decode_group(Pointer<DecodeGroupActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          stays<Tick>(),
          forwards<JoinDecode>(self),
          forwards<ReleaseAttempt>(self),
          forwards<MoveDecode>(self),
          stays<DecodeYielded>(),
          forwards<ReleaseHandover>(self),
          stays<DecodeReady>(),
          stays<DecodeStepDone>()};
}

ExpertShardActor::behavior_type expert_shard(Pointer<ExpertShardActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          forwards<HoldExperts>(self),
          forwards<KeepExperts>(self),
          stays<ExpertsLoaded>()};
}

ExpertSourceActor::behavior_type expert_source(Pointer<ExpertSourceActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Ping>(),
          forwards<ExpertsHeld>(self),
          stays<ExpertsDue>(),
          forwards<CountExperts>(self),
          forwards<PlaceExperts>(self)};
}

EpBalancerActor::behavior_type ep_balancer(Pointer<EpBalancerActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Tick>(), stays<Rewire>(), forwards<ExpertLoads>(self), stays<ExpertsDue>()};
}

SupervisorActor::behavior_type supervisor(Pointer<SupervisorActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Tick>(),
          stays<Heartbeat>(),
          stays<EndPart>(),
          stays<DrainNode>(),
          forwards<ViewPublished>(self),
          stays<LinkAccepted>(),
          stays<PeerLinked>(),
          stays<PeerUp>(),
          stays<PeerDown>(),
          stays<PeerDrains>(),
          stays<DrainKnown>()};
}

MembershipActor::behavior_type membership(Pointer<MembershipActor> self, Proxy proxy) {
  self->state = std::move(proxy);
  return {stays<Rewire>(),
          stays<Tick>(),
          forwards<NodeBeat>(self),
          stays<NodeLinked>(),
          stays<NodeUnlinked>(),
          stays<RecordRead>(),
          stays<RecordWritten>()};
}

}  // namespace

SupervisorActor spawn_supervisor_proxy(caf::actor_system& system, const ProxySeat& seat) {
  return system.spawn(supervisor, Proxy{seat, Role::kSupervisor, 0});
}

MembershipActor spawn_membership_proxy(caf::actor_system& system, const ProxySeat& seat) {
  return system.spawn(membership, Proxy{seat, Role::kMembership, 0});
}

namespace {

// Sources speak with shards and with the balancer, which is on the owner's node.
void add_expert_parts(caf::actor_system& system,
                      const ProxySeat& seat,
                      const TopologyNode& remote,
                      NodeParts& parts) {
  const ClusterContext& cluster = *seat.node->cluster;
  if (!has_expert_nodes(cluster.topology)) {
    return;
  }
  const TopologyNode& owner = cluster.topology.nodes.at(cluster.topology.owner.value);
  if (remote.roles.has_device() &&
      (seat.node->roles.experts || cluster.self == cluster.topology.owner)) {
    parts.expert_source = system.spawn(expert_source, Proxy{seat, Role::kExpertSource, 0});
  }
  for (std::uint32_t s = 0; remote.roles.experts && s < remote.expert_shards; ++s) {
    parts.expert_shards.push_back(system.spawn(expert_shard, Proxy{seat, Role::kExpertShard, s}));
  }
  if (&remote == &owner && seat.node->roles.has_device()) {
    parts.ep_balancer = system.spawn(ep_balancer, Proxy{seat, Role::kEpBalancer, 0});
  }
}

}  // namespace

NodeParts spawn_proxies(caf::actor_system& system,
                        const ProxySeat& seat,
                        const TopologyNode& remote) {
  const NodeRoles& roles = remote.roles;
  NodeParts parts;
  if (roles.gateway) {
    parts.gateway = system.spawn(gateway, Proxy{seat, Role::kGateway, 0});
  }
  if (roles.router) {
    parts.router = system.spawn(router, Proxy{seat, Role::kRouter, 0});
    for (std::uint32_t k = 0; k < kPrefillClasses; ++k) {
      parts.prefill_balancers[k] =
          system.spawn(prefill_balancer, Proxy{seat, Role::kPrefillBalancer, k});
    }
    parts.decode_balancer = system.spawn(decode_balancer, Proxy{seat, Role::kDecodeBalancer, 0});
  }
  if (roles.prefill) {
    parts.prefill_group = system.spawn(prefill_group, Proxy{seat, Role::kPrefillGroup, 0});
  }
  if (roles.decode) {
    parts.decode_group = system.spawn(decode_group, Proxy{seat, Role::kDecodeGroup, 0});
  }
  add_expert_parts(system, seat, remote, parts);
  return parts;
}

void end_proxies(const NodeParts& parts) {
  end_actor(parts.gateway);
  end_actor(parts.router);
  for (const PrefillBalancerActor& balancer : parts.prefill_balancers) {
    end_actor(balancer);
  }
  end_actor(parts.decode_balancer);
  end_actor(parts.prefill_group);
  end_actor(parts.decode_group);
  end_actor(parts.expert_source);
  for (const ExpertShardActor& shard : parts.expert_shards) {
    end_actor(shard);
  }
  end_actor(parts.ep_balancer);
}

}  // namespace shoal
