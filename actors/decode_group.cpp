// Starts a step over all ranks when the last one is done, with whoever lives then: joining and
// leaving happen between steps.
#include "actors/decode_group.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace shoal {
namespace {

struct DecodeGroup {
  static inline const char* name = "decode_group";

  struct Rank {
    DecodeWorkerActor worker;
    EpochId epoch;
    bool awaited = false;  // part of the running step
    std::set<AttemptKey> live;
  };

  PartSeat seat;
  std::vector<Rank> ranks;
  Monitors<std::uint32_t> monitors;
  StepId step;
  Instant step_started{};

  void start(ContextPtr node, std::uint32_t part);
  void rewire(const Rewire& message);
  void join(JoinDecode& message);
  void release(const ReleaseAttempt& message);
  void step_done(const DecodeStepDone& message);
  void lose(std::uint32_t rank);

  void run_step();
  bool running() const;
  bool has_work() const;
};

void DecodeGroup::start(ContextPtr node, std::uint32_t part) {
  seat = {.part = part, .node = std::move(node)};
  ranks.resize(seat.node->devices.size());
}

void DecodeGroup::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    const DecodeWorkerActor& worker = seat.wiring->decode_workers[r];
    if (ranks[r].worker != worker) {
      monitors.forget(ranks[r].worker);
      lose(r);
      monitors.watch(worker, r);
      ranks[r].worker = worker;
    }
  }
}

void DecodeGroup::join(JoinDecode& message) {
  const AttemptKey key = message.handover.key();
  Rank& rank = ranks.at(message.rank);
  if (!rank.worker) {
    notify(seat.wiring->decode_balancer, DecodeLeft{{key}});
    notify(seat.wiring->router,
           AttemptLost{key, Error{Code::kPeerLost, "the decode worker was lost"}});
    return;
  }
  rank.live.insert(key);
  notify(rank.worker, std::move(message));
  run_step();
}

void DecodeGroup::release(const ReleaseAttempt& message) {
  for (Rank& rank : ranks) {
    rank.live.erase(message.key);
    notify(rank.worker, message);
  }
}

bool DecodeGroup::running() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.awaited; });
}

bool DecodeGroup::has_work() const {
  return std::any_of(
      ranks.begin(), ranks.end(), [](const Rank& rank) { return !rank.live.empty(); });
}

void DecodeGroup::run_step() {
  if (running() || !has_work()) {
    return;
  }
  ++step.value;
  step_started = seat.node->now();
  for (Rank& rank : ranks) {
    if (!rank.live.empty()) {
      rank.awaited = true;
      notify(rank.worker, DecodeStep{rank.epoch, step, {rank.live.begin(), rank.live.end()}});
    }
  }
}

void DecodeGroup::step_done(const DecodeStepDone& message) {
  Rank& rank = ranks.at(message.rank);
  if (!rank.awaited || message.epoch != rank.epoch || message.step != step) {
    return;
  }
  rank.awaited = false;
  ++seat.progress;
  for (const AttemptKey& key : message.ended) {
    rank.live.erase(key);
  }
  if (!message.ended.empty()) {
    notify(seat.wiring->decode_balancer, DecodeLeft{message.ended});
  }
  if (!running()) {
    seat.node->metrics.decode_turnaround_ns += (seat.node->now() - step_started).count();
    run_step();
  }
}

// What ran on the rank is tried again from its stream; the others go on.
void DecodeGroup::lose(std::uint32_t lost) {
  Rank& rank = ranks[lost];
  rank.worker = nullptr;
  rank.awaited = false;
  ++rank.epoch.value;
  const std::set<AttemptKey> live = std::exchange(rank.live, {});
  for (const AttemptKey& key : live) {
    notify(seat.wiring->router,
           AttemptLost{key, Error{Code::kPeerLost, "the decode worker was lost"}});
  }
  if (!live.empty()) {
    notify(seat.wiring->decode_balancer, DecodeLeft{{live.begin(), live.end()}});
  }
  run_step();
}

DecodeGroupActor::behavior_type decode_group(DecodeGroupActor::stateful_pointer<DecodeGroup> self,
                                             ContextPtr node,
                                             std::uint32_t part) {
  DecodeGroup& state = self->state;
  state.start(std::move(node), part);
  state.monitors.start(self,
                       [&state](std::uint32_t rank, const std::string&) { state.lose(rank); });
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(self->state.has_work()); },
      [self](JoinDecode& m) { self->state.join(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](const DecodeStepDone& m) { self->state.step_done(m); },
  };
}

}  // namespace

DecodeGroupActor spawn_decode_group(caf::actor_system& system,
                                    ContextPtr node,
                                    std::uint32_t part) {
  return system.spawn(decode_group, std::move(node), part);
}

}  // namespace shoal
