// Takes KV memory for what comes from other processes, and keeps two steps over all ranks on the
// devices, with whoever is ready when they are launched: joining and leaving happen between steps.
#include "actors/decode_group.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/policy/cost_fit.h"
#include "actors/policy/draft_control.h"
#include "actors/step_drafts.h"

namespace shoal {
namespace {

// How old a report may be, in steps.
constexpr std::uint64_t kStepsTold = 64;

struct DecodeGroup {
  static inline const char* name = "decode_group";

  struct Rank {
    DecodeWorkerActor worker;
    EpochId epoch;
  };

  // A step that runs, or is prepared behind the one that does.
  struct Flight {
    struct OfRank {
      std::vector<AttemptKey> rows;   // ascending
      std::vector<AttemptKey> ended;  // with a step before, and still in this one
      DecodeStepDone done{};
      bool awaited = false;
    };

    StepId step;
    Instant started{};
    std::vector<OfRank> ranks;
    bool feeds_drafts = false;

    bool is_over() const {
      return std::none_of(
          ranks.begin(), ranks.end(), [](const OfRank& rank) { return rank.awaited; });
    }
  };

  struct Held {
    PlacementPtr placement;
    std::uint32_t rank = 0;
    Position tokens = 0;     // at the hand-over
    bool ready = false;      // its KV is on the rank
    bool leaves = false;     // asked to yield, or ended: it runs no more
    std::int64_t grown = 0;  // when it joined
  };

  PartSeat seat;
  std::vector<Rank> ranks;
  Monitors<std::uint32_t> monitors;
  std::map<AttemptKey, Held> held;
  OpenCount open;
  std::vector<std::uint64_t> received;  // hand-overs, by router's NodeId
  KvRoom told;                          // free memory in the last report
  StepId told_step;                     // likewise
  StepId step;                          // the last that was launched
  std::deque<Flight> flights;
  Instant idle_since{};        // the end of the last step that was over
  std::int64_t grown_ppm = 0;  // tokens that an answer got since the start, in the mean, millionths
  std::optional<CostFit> fit;
  std::optional<DraftControl> drafts;

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
  void end_answers(std::deque<Flight>::iterator flight, std::uint32_t rank);
  void finish_steps();
  void lose(std::uint32_t rank);

  bool take_memory(const JoinDecode& message, KvLeasePtr& kv);
  void run_steps();
  bool launch_step();
  DecodeStep order(std::uint32_t rank,
                   const std::vector<AttemptKey>& rows,
                   const std::shared_ptr<const DraftPlan>& plan) const;
  void finish_step(const Flight& flight);

  std::int64_t grown() const { return grown_ppm / 1'000'000; }

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
  const kernels::ModelShape& shape = seat.node->devices.front().backend->shape();
  drafts.emplace(shape.drafts > 0 ? seat.node->options.decode_drafts : nullptr,
                 DraftControlOptions{.window = shape.window});
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
      step.value >= told_step.value + kStepsTold) {
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
               .grown = grown()};
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
    run_steps();
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

// While one runs, the next is prepared behind it, so that the device never waits for what is made
// of a step's tokens.
void DecodeGroup::run_steps() {
  while (flights.size() <= seat.node->options.decode_steps_ahead && launch_step()) {
  }
}

// False: nothing is there to run.
bool DecodeGroup::launch_step() {
  Flight flight{.step = StepId{step.value + 1}, .started = seat.node->now(), .ranks = {}};
  flight.ranks.resize(ranks.size());
  for (const auto& [key, work] : held) {
    if (work.ready && !work.leaves) {
      flight.ranks[work.rank].rows.push_back(key);
      flight.ranks[work.rank].awaited = true;
    }
  }
  if (flight.is_over()) {
    return false;
  }
  ++step.value;
  std::vector<std::int64_t> requests;
  for (const Flight::OfRank& rank : flight.ranks) {
    requests.push_back(std::ssize(rank.rows));
  }
  const auto plan = std::make_shared<const DraftPlan>(drafts->plan(requests));
  flight.feeds_drafts = plan->feeds;
  seat.node->feeds_drafts = plan->feeds || plan->reason == DraftReason::kNoRequests;
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    if (flight.ranks[r].awaited) {
      notify(ranks[r].worker, order(r, flight.ranks[r].rows, plan));
    }
  }
  flights.push_back(std::move(flight));
  return true;
}

DecodeStep DecodeGroup::order(std::uint32_t rank,
                              const std::vector<AttemptKey>& rows,
                              const std::shared_ptr<const DraftPlan>& plan) const {
  DecodeStep order{ranks[rank].epoch, step, rows, plan->feeds, plan->makes_drafts};
  if (plan->verifies) {
    order.verifies = plan->sizes.most_drafts;
    order.fill = draft_fill(
        *seat.node->options.decode_drafts, {plan, &plan->sizes}, rank, drafts->temperatures());
  }
  return order;
}

void DecodeGroup::step_done(const DecodeStepDone& message) {
  const auto flight =
      std::find_if(flights.begin(), flights.end(), [step = message.step](const Flight& f) {
        return f.step == step;
      });
  if (message.epoch != ranks.at(message.rank).epoch || flight == flights.end() ||
      !flight->ranks[message.rank].awaited) {
    return;
  }
  Flight::OfRank& rank = flight->ranks[message.rank];
  rank.awaited = false;
  rank.done = message;
  ++seat.progress;
  count_demand(message.tally.work);
  end_answers(flight, message.rank);
  finish_steps();
}

// Memory of an answer is free behind the last step that has it.
void DecodeGroup::end_answers(std::deque<Flight>::iterator flight, std::uint32_t rank) {
  std::vector<AttemptKey> ended = std::move(flight->ranks[rank].ended);
  for (const AttemptKey& key : flight->ranks[rank].done.ended) {
    const auto later = std::find_if(flight + 1, flights.end(), [&key, rank](const Flight& f) {
      return std::binary_search(f.ranks[rank].rows.begin(), f.ranks[rank].rows.end(), key);
    });
    if (later == flights.end()) {
      ended.push_back(key);
      continue;
    }
    later->ranks[rank].ended.push_back(key);
    if (const auto work = held.find(key); work != held.end()) {
      work->second.leaves = true;
    }
  }
  let_go(ended);
}

void DecodeGroup::finish_steps() {
  while (!flights.empty() && flights.front().is_over()) {
    finish_step(flights.front());
    flights.pop_front();
  }
  run_steps();
}

void DecodeGroup::finish_step(const Flight& flight) {
  std::int64_t drawn = 0;
  std::int64_t rows = 0;
  std::int64_t answers = 0;
  const DecodeStepDone* slowest = &flight.ranks.front().done;
  std::vector<RankDrafts> became;
  for (const Flight::OfRank& rank : flight.ranks) {
    became.push_back(rank_drafts(
        rank.done.tally, flight.feeds_drafts, rank.done.compute, drafts->temperatures()));
    drawn += rank.done.tally.drawn;
    rows += rank.done.tally.rows;
    answers += rank.done.tally.work.rows;
    slowest = rank.done.compute > slowest->compute ? &rank.done : slowest;
  }
  if (answers > 0) {
    grown_ppm += drawn * 1'000'000 / answers;
  }
  fit->add(slowest->tally.work, slowest->compute);
  NodeMetrics& metrics = seat.node->metrics;
  metrics.fed_rows += flight.feeds_drafts ? rows : 0;
  metrics.decode_cost.set(*fit);
  drafts->add(became);
  metrics.drafts.set(drafts->figures());
  const Instant now = seat.node->now();
  metrics.decode_turnaround_ns += (now - std::max(flight.started, idle_since)).count();
  idle_since = now;
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
  ++rank.epoch.value;
  for (Flight& flight : flights) {
    flight.ranks[lost] = {};
  }
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
  finish_steps();
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
  for (std::uint32_t n = 0; n < received.size(); ++n) {
    if (!seat.wiring->nodes[n].decode_balancer) {
      continue;
    }
    DecodeLoad load{seat.wiring->self,
                    std::vector<DecodeRankLoad>(ranks.size()),
                    received[n],
                    fit->report(),
                    static_cast<std::uint64_t>(grown())};
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const kernels::KvArena& arena = seat.node->devices[r].backend->arena();
      load.ranks[r].room = {arena.free_blocks(), arena.free_sequences()};
      load.ranks[r].blocks = arena.blocks();
    }
    for (const auto& [key, work] : held) {
      if (work.placement->router != NodeId{n}) {
        ++load.ranks[work.rank].others;
        load.ranks[work.rank].others_tokens += work.tokens + grown() - work.grown;
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
