// Takes KV memory for what comes from other processes, and starts a step over all ranks when the
// last one is done, with whoever is ready then: joining and leaving happen between steps.
#include "actors/decode_group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/policy/cost_fit.h"

namespace shoal {
namespace {

// How old a report may be, in steps.
constexpr std::uint64_t kStepsTold = 64;

struct DecodeGroup {
  static inline const char* name = "decode_group";

  struct Rank {
    DecodeWorkerActor worker;
    EpochId epoch;
    bool awaited = false;  // part of the running step
  };

  struct Held {
    PlacementPtr placement;
    std::uint32_t rank = 0;
    Position tokens = 0;  // at the hand-over
    bool ready = false;   // its KV is on the rank
    bool leaves = false;  // asked to yield: it runs no more
    StepId joined;        // the last step without it
  };

  PartSeat seat;
  std::vector<Rank> ranks;
  Monitors<std::uint32_t> monitors;
  std::map<AttemptKey, Held> held;
  OpenCount open;
  std::vector<std::uint64_t> received;  // hand-overs, by router's NodeId
  KvRoom told;                          // free memory in the last report
  StepId told_step;                     // likewise
  bool told_draining = false;           // likewise
  StepId step;
  Instant step_started{};
  std::optional<CostFit> fit;
  DecodeStepDone slowest;  // of the running step

  void start(ContextPtr node, std::uint32_t part);
  void rewire(const Rewire& message);
  void tick();
  void join(JoinDecode& message);
  void release(const ReleaseAttempt& message);
  void move(const MoveDecode& message);
  void yielded(const DecodeYielded& message);
  void release_handover(const ReleaseHandover& message);
  void ready(const DecodeReady& message);
  void step_done(const DecodeStepDone& message);
  void lose(std::uint32_t rank);

  bool take_memory(const JoinDecode& message, KvLeasePtr& kv);
  void run_step();
  bool running() const;
  void count_demand(const StepWork& work) const;
  void let_go(const std::vector<AttemptKey>& keys);
  AttemptLost worker_lost(const AttemptKey& key, bool ready) const;
  void report();
  KvRoom room() const;
  const DecodeBalancerActor& balancer_of(const Placement& placement) const;
};

void DecodeGroup::start(ContextPtr node, std::uint32_t part) {
  open.start(node);
  seat = {.part = part, .node = std::move(node)};
  ranks.resize(seat.node->devices.size());
  fit.emplace(seat.node->options.decode_cost);
}

const DecodeBalancerActor& DecodeGroup::balancer_of(const Placement& placement) const {
  return seat.wiring->at(placement.router).decode_balancer;
}

void DecodeGroup::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  received.resize(seat.wiring->nodes.size());
  std::vector<AttemptKey> orphaned;
  std::vector<std::pair<RouterActor, AttemptLost>> unheard;
  for (std::uint32_t n = 0; n < received.size(); ++n) {
    if (seat.wiring->lost(before->site(NodeId{n}))) {
      received[n] = 0;
      for (const auto& [key, work] : held) {
        if (work.placement->router == NodeId{n}) {
          orphaned.push_back(key);
        } else if (work.placement->submission->gateway == NodeId{n}) {
          unheard.emplace_back(
              seat.router_of(*work.placement),
              AttemptLost{key, Error{Code::kPeerLost, "its tokens do not reach the gateway"}, {}});
        }
      }
    }
  }
  for (const AttemptKey& key : orphaned) {
    release({key});
  }
  for (auto& [router, loss] : unheard) {
    notify(router, std::move(loss));  // which releases it here
  }
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    const DecodeWorkerActor& worker = seat.wiring->decode_workers[r];
    if (ranks[r].worker != worker) {
      monitors.forget(ranks[r].worker);
      lose(r);
      monitors.watch(worker, r);
      ranks[r].worker = worker;
    }
  }
  report();
}

// Memory comes back when a step lets go of it, which no message says. Answers grow with steps.
void DecodeGroup::tick() {
  const KvRoom now = room();
  if (now.blocks > told.blocks || now.sequences > told.sequences ||
      step.value >= told_step.value + kStepsTold || seat.node->draining != told_draining) {
    report();
  }
}

void DecodeGroup::join(JoinDecode& message) {
  const Placement& placement = *message.handover.placement;
  const AttemptKey key = placement.key();
  if (placement.router.value >= received.size() || message.rank >= ranks.size()) {
    return;
  }
  ++received[placement.router.value];
  Rank& rank = ranks[message.rank];
  if (!rank.worker) {
    notify(balancer_of(placement), DecodeLeft{{key}});
    notify(seat.router_of(placement), worker_lost(key, false));
    return;
  }
  if (!message.handover.kv && !take_memory(message, message.handover.kv)) {
    notify(balancer_of(placement), DecodeRefused{key, seat.wiring->self});
    report();
    return;
  }
  held[key] = {.placement = message.handover.placement,
               .rank = message.rank,
               .tokens = message.handover.position,
               .joined = step};
  message.epoch = rank.epoch;
  notify(rank.worker, std::move(message));
  report();
}

bool DecodeGroup::take_memory(const JoinDecode& message, KvLeasePtr& kv) {
  kernels::KvArena& arena = seat.node->devices[message.rank].backend->arena();
  kv = KvLease::take(arena, message.handover.placement->blocks, [] {});
  return kv != nullptr;
}

void DecodeGroup::ready(const DecodeReady& message) {
  const auto work = held.find(message.key);
  if (work != held.end() && work->second.rank == message.rank &&
      ranks.at(message.rank).epoch == message.epoch) {
    work->second.ready = true;
    work->second.leaves = false;
    run_step();
  }
}

// One that it does not have may be on offer by any of its workers.
void DecodeGroup::release(const ReleaseAttempt& message) {
  const auto work = held.find(message.key);
  if (work != held.end()) {
    notify(ranks[work->second.rank].worker, message);
    held.erase(work);
    report();
    return;
  }
  for (const Rank& rank : ranks) {
    notify(rank.worker, message);
  }
}

void DecodeGroup::move(const MoveDecode& message) {
  const auto work = held.find(message.key);
  if (work == held.end()) {
    return;  // over: its balancer hears of that
  }
  if (!work->second.ready) {
    notify(balancer_of(*work->second.placement), DecodeKept{message.key, seat.wiring->self});
  } else if (!work->second.leaves) {
    work->second.leaves = true;
    notify(ranks[work->second.rank].worker, message);
  }
}

// No place is free for others by that: its balancer knows where it goes.
void DecodeGroup::yielded(const DecodeYielded& message) {
  if (held.erase(message.handover.key()) > 0) {
    ++seat.progress;
    report();
  }
}

void DecodeGroup::release_handover(const ReleaseHandover& message) {
  if (message.rank < ranks.size()) {
    notify(ranks[message.rank].worker, message);
  }
}

bool DecodeGroup::running() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.awaited; });
}

void DecodeGroup::run_step() {
  if (running()) {
    return;
  }
  std::vector<std::vector<AttemptKey>> rows(ranks.size());
  for (const auto& [key, work] : held) {
    if (work.ready && !work.leaves) {
      rows[work.rank].push_back(key);
    }
  }
  if (std::all_of(rows.begin(), rows.end(), [](const auto& of_rank) { return of_rank.empty(); })) {
    return;
  }
  ++step.value;
  step_started = seat.node->now();
  slowest = {};
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!rows[r].empty()) {
      ranks[r].awaited = true;
      notify(ranks[r].worker, DecodeStep{ranks[r].epoch, step, std::move(rows[r])});
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
  let_go(message.ended);
  count_demand(message.work);
  if (message.compute > slowest.compute) {
    slowest = message;
  }
  if (!running()) {
    fit->add(slowest.work, slowest.compute);
    seat.node->metrics.decode_cost.set(*fit);
    seat.node->metrics.decode_turnaround_ns += (seat.node->now() - step_started).count();
    run_step();
  }
}

// In the time that a full rank takes for it.
void DecodeGroup::count_demand(const StepWork& work) const {
  if (work.rows > 0) {
    const NodeOptions& options = seat.node->options;
    const Nanos token = token_work(
        fit->model(), work.pairs / work.rows, options.decode_batch, options.autoscale.token);
    seat.node->metrics.demand_ns[kScaledDecode] += token.count() * work.rows;
  }
}

// Places are free again.
void DecodeGroup::let_go(const std::vector<AttemptKey>& keys) {
  std::map<NodeId, std::vector<AttemptKey>> by_router;
  for (const AttemptKey& key : keys) {
    if (const auto work = held.find(key); work != held.end()) {
      by_router[work->second.placement->router].push_back(key);
      held.erase(work);
    }
  }
  for (auto& [router, left] : by_router) {
    notify(seat.wiring->at(router).decode_balancer, DecodeLeft{std::move(left)});
  }
  if (!by_router.empty()) {
    report();
  }
}

AttemptLost DecodeGroup::worker_lost(const AttemptKey& key, bool ready) const {
  AttemptLost loss{key, Error{Code::kPeerLost, "the decode worker was lost"}, {}};
  if (!ready) {
    loss.decode = seat.wiring->self;
  }
  return loss;
}

// What ran on the rank is tried again from its stream; the others go on.
void DecodeGroup::lose(std::uint32_t lost) {
  Rank& rank = ranks[lost];
  rank.worker = nullptr;
  rank.awaited = false;
  ++rank.epoch.value;
  std::vector<AttemptKey> ended;
  std::vector<std::pair<RouterActor, AttemptLost>> losses;
  for (const auto& [key, work] : held) {
    if (work.rank == lost) {
      ended.push_back(key);
      losses.emplace_back(seat.router_of(*work.placement), worker_lost(key, work.ready));
    }
  }
  let_go(ended);  // first: a router may place it again at once
  for (auto& [router, loss] : losses) {
    notify(router, std::move(loss));
  }
  run_step();
}

// Of all ranks together.
KvRoom DecodeGroup::room() const {
  KvRoom room;
  for (const DevicePort& device : seat.node->devices) {
    room.blocks += device.backend->arena().free_blocks();
    room.sequences += device.backend->arena().free_sequences();
  }
  return room;
}

void DecodeGroup::report() {
  open.set(held.size());
  told = room();
  told_step = step;
  told_draining = seat.node->draining;
  for (std::uint32_t n = 0; n < received.size(); ++n) {
    if (!seat.wiring->nodes[n].decode_balancer) {
      continue;
    }
    DecodeLoad load{seat.wiring->self,
                    std::vector<DecodeRankLoad>(ranks.size()),
                    received[n],
                    fit->report(),
                    step.value,
                    told_draining};
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const kernels::KvArena& arena = seat.node->devices[r].backend->arena();
      load.ranks[r].room = {arena.free_blocks(), arena.free_sequences()};
      load.ranks[r].blocks = arena.blocks();
    }
    for (const auto& [key, work] : held) {
      if (work.placement->router != NodeId{n}) {
        ++load.ranks[work.rank].others;
        load.ranks[work.rank].others_tokens +=
            work.tokens + static_cast<Position>(step.value - work.joined.value);
      }
    }
    notify(seat.wiring->nodes[n].decode_balancer, std::move(load));
  }
}

DecodeGroupActor::behavior_type decode_group(DecodeGroupActor::stateful_pointer<DecodeGroup> self,
                                             ContextPtr node,
                                             std::uint32_t part) {
  DecodeGroup& state = self->state;
  state.start(std::move(node), part);
  state.monitors.start(self,
                       [&state](std::uint32_t rank, const std::string&) { state.lose(rank); });
  send_after(self, state.seat.node->options.tick, Tick{});
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(!self->state.held.empty()); },
      [self](const Tick&) {
        self->state.tick();
        send_after(self, self->state.seat.node->options.tick, Tick{});
      },
      [self](JoinDecode& m) { self->state.join(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](const MoveDecode& m) { self->state.move(m); },
      [self](const DecodeYielded& m) { self->state.yielded(m); },
      [self](const ReleaseHandover& m) { self->state.release_handover(m); },
      [self](const DecodeReady& m) { self->state.ready(m); },
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
