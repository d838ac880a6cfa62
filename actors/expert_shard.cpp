// A shard of this process's own device takes the placement in force by itself; one for a cluster
// has nothing until a source asks.
#include "actors/expert_shard.h"

#include <string>
#include <utility>
#include <vector>

#include "actors/expert_host.h"
#include "actors/expert_shards.h"

namespace shoal {
namespace {

struct Shard {
  static inline const char* name = "expert_shard";

  PartSeat seat;
  std::uint32_t shard = 0;
  ExpertShardLife life;                 // of this process's own device
  std::unique_ptr<HostedShard> hosted;  // for a cluster; null: for its own device
  EpochId epoch;                        // that it holds
  ExpertMapPtr served;
  std::vector<SiteRef> told{};  // sources, by node
  std::string trouble;

  void start();
  void rewire(const Rewire& message);
  void hold(const HoldExperts& message);
  void tell(const ExpertSourceActor& source) const;
  void tell_all() const;
  void log_served() const;
};

void Shard::start() {
  const ExpertParts& experts = seat.node->experts;
  if (experts.host != nullptr) {
    hosted = experts.host->begin(shard);
    return;
  }
  if (auto begun = experts.shards->begin(shard)) {
    life = *std::move(begun);
    epoch = experts.shards->placement().epoch;
    log_served();
  } else {
    trouble = "holds no experts: " + begun.error().message;
    seat.node->log.event(
        LogLevel::kError, "experts.refused", {{"shard", shard}, {"reason", begun.error().message}});
  }
}

// To a source that is new, or that lost what it knew with a link.
void Shard::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  if (hosted == nullptr) {
    return;
  }
  told.resize(seat.wiring->nodes.size());
  for (std::uint32_t n = 0; n < told.size(); ++n) {
    const SiteRef site = seat.wiring->site(NodeId{n});
    if (!(std::exchange(told[n], site) == site)) {
      tell(seat.wiring->nodes[n].expert_source);
    }
  }
}

void Shard::hold(const HoldExperts& message) {
  if (hosted == nullptr) {
    return;
  }
  const EpochId wanted = message.map->epoch;
  if (served != nullptr && wanted <= served->epoch) {
    tell_all();
    return;
  }
  if (auto held = hosted->hold(*message.map); !held) {
    epoch = served == nullptr ? EpochId{} : served->epoch;
    trouble = served == nullptr ? "holds no experts: " + held.error().message : "";
    seat.node->log.event(LogLevel::kError,
                         "experts.refused",
                         {{"shard", shard}, {"epoch", wanted}, {"reason", held.error().message}});
    for (const NodeParts& parts : seat.wiring->nodes) {
      notify(parts.expert_source,
             ExpertsHeld{seat.wiring->self, shard, wanted, served, held.error()});
    }
    return;
  }
  ++seat.progress;
  trouble.clear();
  epoch = wanted;
  if (message.serves) {
    hosted->serve(wanted);
    served = message.map;
    log_served();
  }
  tell_all();
}

void Shard::tell(const ExpertSourceActor& source) const {
  notify(source, ExpertsHeld{seat.wiring->self, shard, epoch, served, {}});
}

void Shard::tell_all() const {
  for (const NodeParts& parts : seat.wiring->nodes) {
    tell(parts.expert_source);
  }
}

void Shard::log_served() const {
  const ExpertParts& experts = seat.node->experts;
  const kernels::ExpertEngineUse use =
      hosted == nullptr ? experts.shards->use(shard) : hosted->use();
  seat.node->log.event(
      LogLevel::kInfo,
      "experts.served",
      {{"shard", shard}, {"epoch", epoch}, {"experts", use.experts}, {"bytes", use.weights.value}});
}

ExpertShardActor::behavior_type expert_shard(ExpertShardActor::stateful_pointer<Shard> self,
                                             ContextPtr node,
                                             std::uint32_t part,
                                             std::uint32_t shard) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.shard = shard;
  self->state.start();
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(false, self->state.trouble); },
      [self](const HoldExperts& m) { self->state.hold(m); },
  };
}

}  // namespace

ExpertShardActor spawn_expert_shard(caf::actor_system& system,
                                    ContextPtr node,
                                    std::uint32_t part,
                                    std::uint32_t shard) {
  return system.spawn(expert_shard, std::move(node), part, shard);
}

}  // namespace shoal
