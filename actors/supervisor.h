// Keeps the node's parts alive and says how they are: pings everybody, judges by progress, replaces
// a lost worker or expert shard in place and rebuilds the whole pipeline when anything else but the
// gateway is lost. In a cluster it also speaks for its node: beats to the owner of the membership,
// follows the view, and wires in what the peers bring.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

// Numbers of the parts, as their heartbeats carry them.
namespace part {
inline constexpr std::uint32_t kGateway = 0;
inline constexpr std::uint32_t kRouter = 1;
inline constexpr std::uint32_t kPrefillBalancer = 2;  // one per length class
inline constexpr std::uint32_t kPrefillGroup = kPrefillBalancer + kPrefillClasses;
inline constexpr std::uint32_t kDecodeBalancer = kPrefillGroup + 1;
inline constexpr std::uint32_t kDecodeGroup = kDecodeBalancer + 1;
inline constexpr std::uint32_t kKvClient = kDecodeGroup + 1;
inline constexpr std::uint32_t kExpertSource = kKvClient + 1;
inline constexpr std::uint32_t kFirstWorker = kExpertSource + 1;
inline constexpr std::uint32_t kWorkerKinds = 3;

constexpr std::uint32_t prefill_worker(std::uint32_t rank) {
  return kFirstWorker + kWorkerKinds * rank;
}

constexpr std::uint32_t decode_worker(std::uint32_t rank) {
  return kFirstWorker + kWorkerKinds * rank + 1;
}

constexpr std::uint32_t expert_shard(std::uint32_t shard) {
  return kFirstWorker + kWorkerKinds * shard + 2;
}

// With so many workers of the kind of which there are most.
constexpr std::uint32_t count(std::size_t workers) {
  return kFirstWorker + kWorkerKinds * static_cast<std::uint32_t>(workers);
}

// Not pinged: they are watched for their end only.
inline constexpr std::uint32_t kMembership = 1U << 30;
inline constexpr std::uint32_t kAutoscaler = kMembership + 1;
inline constexpr std::uint32_t kEpBalancer = kAutoscaler + 1;
inline constexpr std::uint32_t kFirstPeer = kEpBalancer + 1;  // plus the other node's NodeId

std::string name(std::uint32_t part);
}  // namespace part

// How to make parts; given by the composition root.
struct Blueprint {
  // Everything behind the gateway that the node's roles ask for: this node's entry and workers.
  std::function<void(Wiring&)> pipeline;
  std::function<PrefillWorkerActor(std::uint32_t rank)> prefill_worker;
  std::function<DecodeWorkerActor(std::uint32_t rank)> decode_worker;
  std::function<ExpertShardActor(std::uint32_t shard)> expert_shard;
  std::function<PeerActor(const SupervisorActor&, NodeId)> peer;
  std::function<MembershipActor()> membership;
  std::function<AutoscalerActor()> autoscaler;
  std::function<EpBalancerActor()> ep_balancer;
};

SupervisorActor spawn_supervisor(caf::actor_system& system,
                                 ContextPtr node,
                                 GatewayActor gateway,
                                 Blueprint blueprint);

}  // namespace shoal
