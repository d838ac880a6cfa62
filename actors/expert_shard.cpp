// A shard of this process's own device takes the placement in force by itself; one for a cluster
// has nothing until a source asks, and loads what it is asked for behind the actor's back.
#include "actors/expert_shard.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/expert_host.h"
#include "actors/expert_shards.h"

namespace shoal {
namespace {

struct Shard {
  static inline const char* name = "expert_shard";

  // What is loaded in the background.
  struct Load {
    std::uint64_t number = 0;
    ExpertMapPtr map;  // null: nothing
    bool serves = false;
    std::shared_ptr<std::atomic<bool>> gives_up;
  };

  PartSeat seat;
  std::uint32_t shard = 0;
  ExpertShardActor me;
  ExpertShardLife life;                 // of this process's own device
  std::unique_ptr<HostedShard> hosted;  // for a cluster; null: for its own device
  EpochId epoch;                        // that it holds
  ExpertMapPtr served;
  EpochId before;  // that it serves, too
  Load load;
  std::optional<HoldExperts> next;  // to be loaded behind that
  std::vector<SiteRef> told{};      // sources, by node
  std::string trouble;

  void start();
  void rewire(const Rewire& message);
  void hold(const HoldExperts& message);
  void keep(const KeepExperts& message);
  void loaded(const ExpertsLoaded& message);

  void queue(const HoldExperts& message);
  void begin(const HoldExperts& message);
  void finish(const Load& done);
  void refuse(const Load& refused, const Error& error);

  EpochId served_epoch() const { return served == nullptr ? EpochId{} : served->epoch; }

  ExpertsHeld state() const;
  void tell_all(const ExpertsHeld& message) const;
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
      notify(seat.wiring->nodes[n].expert_source, state());
    }
  }
}

// Who asks by an older placement than it serves does not know that one.
void Shard::hold(const HoldExperts& message) {
  if (hosted == nullptr) {
    return;
  }
  const EpochId wanted = message.map->epoch;
  if (wanted <= served_epoch()) {
    ExpertsHeld said = state();
    said.map = wanted < served_epoch() ? served : nullptr;
    notify(seat.wiring->at(message.source).expert_source, said);
  } else if (load.map != nullptr) {
    queue(message);
  } else {
    begin(message);
  }
}

// What is to be served goes before what is only to be held, then the newest counts, or two sources
// would end each other's for ever. The others ask again when they hear what is held.
void Shard::queue(const HoldExperts& message) {
  const auto weight = [](const ExpertMapPtr& map, bool serves) {
    return std::pair(serves, map->epoch);
  };
  const auto wanted = weight(message.map, message.serves);
  if (load.map->epoch == message.map->epoch) {
    load.serves |= message.serves;
    return;
  }
  if (wanted < weight(load.map, load.serves) ||
      (next && wanted <= weight(next->map, next->serves))) {
    return;
  }
  next = message;
  if (!load.serves) {
    *load.gives_up = true;
  }
}

// One to be held is planned where all sources use what is served: of three placements there would
// be more slots than of the last one and of what moves.
void Shard::begin(const HoldExperts& message) {
  if (!message.serves && std::exchange(before, EpochId{}) != EpochId{}) {
    hosted->retire();
  }
  load = {load.number + 1, message.map, message.serves, std::make_shared<std::atomic<bool>>(false)};
  hosted->load(load.map,
               load.gives_up,
               [weak = caf::actor_cast<caf::weak_actor_ptr>(me),
                number = load.number](Result<void> outcome) {
                 if (const auto strong = weak.lock()) {
                   notify(caf::actor_cast<ExpertShardActor>(strong),
                          ExpertsLoaded{number, std::move(outcome)});
                 }
               });
}

void Shard::loaded(const ExpertsLoaded& message) {
  if (load.map == nullptr || message.load != load.number) {
    return;
  }
  const Load done = std::exchange(load, Load{load.number, nullptr, false, nullptr});
  if (message.outcome) {
    finish(done);
  } else {
    hosted->drop();
    epoch = served_epoch();
    if (*done.gives_up) {
      tell_all(state());
    } else {
      refuse(done, message.outcome.error());
    }
  }
  if (const auto following = std::exchange(next, std::nullopt)) {
    hold(*following);
  }
}

void Shard::finish(const Load& done) {
  ++seat.progress;
  trouble.clear();
  epoch = done.map->epoch;
  if (done.serves) {
    before = served_epoch();
    hosted->serve(done.map);
    served = done.map;
    log_served();
  }
  tell_all(state());
}

void Shard::refuse(const Load& refused, const Error& error) {
  const EpochId wanted = refused.map->epoch;
  trouble = served == nullptr ? "holds no experts: " + error.message : "";
  seat.node->log.event(LogLevel::kError,
                       "experts.refused",
                       {{"shard", shard}, {"epoch", wanted}, {"reason", error.message}});
  ExpertsHeld said = state();
  said.held = wanted;
  said.refusal = error;
  tell_all(said);
}

// Behind the last step that uses older slots.
void Shard::keep(const KeepExperts& message) {
  if (served == nullptr || served->epoch != message.epoch) {
    return;
  }
  const bool changes = before != EpochId{} || epoch != served->epoch || load.map != nullptr;
  if (std::exchange(before, EpochId{}) != EpochId{}) {
    hosted->retire();
  }
  next.reset();
  if (load.map != nullptr) {
    *load.gives_up = true;
    load.serves = false;
  } else if (std::exchange(epoch, served->epoch) != served->epoch) {
    hosted->drop();
  }
  if (changes) {
    tell_all(state());
  }
}

ExpertsHeld Shard::state() const {
  return {.node = seat.wiring->self,
          .shard = shard,
          .held = epoch,
          .served = served_epoch(),
          .before = before,
          .use = hosted->use()};
}

void Shard::tell_all(const ExpertsHeld& message) const {
  for (const NodeParts& parts : seat.wiring->nodes) {
    notify(parts.expert_source, message);
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
  self->state.me = self;
  self->state.start();
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(false, self->state.trouble); },
      [self](const HoldExperts& m) { self->state.hold(m); },
      [self](const KeepExperts& m) { self->state.keep(m); },
      [self](const ExpertsLoaded& m) { self->state.loaded(m); },
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
