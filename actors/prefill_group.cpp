// Admits requests when their KV fits, gives each rank its part of a step, and starts the next when
// all ranks are done.
#include "actors/prefill_group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/placement.h"
#include "actors/policy/cost_fit.h"
#include "actors/policy/kv_budget.h"
#include "actors/policy/prefill_cost.h"

namespace shoal {
namespace {

// From another process a placement comes without the keys of its blocks.
PlacementPtr with_keys(const PlacementPtr& placement) {
  if (placement->kv == nullptr || !placement->kv->keys.empty()) {
    return placement;
  }
  auto named = std::make_shared<Placement>(*placement);
  named->kv =
      std::make_shared<const KvNames>(name_blocks(placement->kv->root, *placement->submission));
  return named;
}

struct PrefillGroup {
  static inline const char* name = "prefill_group";

  struct Rank {
    PrefillWorkerActor worker;
    EpochId epoch;
    bool awaited = false;  // part of the running step
  };

  struct Held {
    PlacementPtr placement;
    KvLeasePtr kv;  // from the first chunk on
    Position done = 0;
    bool stays = true;  // decode goes on on this device; else in another process
    bool loading = false;
    KvBytes loads{};  // until the first chunk
  };

  // Its prefill is over; the rank copies its KV out or has it on offer, until it is released.
  struct Leaving {
    PlacementPtr placement;
    std::uint32_t rank;
  };

  PartSeat seat;
  PrefillGroupActor me;
  std::optional<CostFit> fit;
  std::optional<PrefillSchedule> schedule;
  std::vector<Rank> ranks;
  Monitors<std::uint32_t> monitors;
  std::map<AttemptKey, Held> held;
  std::map<AttemptKey, Leaving> leaving;
  OpenCount open;
  std::vector<std::array<std::uint64_t, kPrefillClasses>> received;  // by router's NodeId
  StepId step;
  std::vector<PrefillChunk> chunks;        // of the running step
  Instant step_ends{};                     // as predicted
  std::optional<PrefillStepDone> slowest;  // of the ranks of the running step that are done

  void start(ContextPtr node, std::uint32_t part);
  void rewire(const Rewire& message);
  void place(const PlacePrefill& message);
  void release(const ReleaseAttempt& message);
  void loaded(KvLoaded& message);
  void step_done(const PrefillStepDone& message);
  void tick();
  void lose(std::uint32_t rank);
  void lose_leaving(std::uint32_t rank);
  void lose_router(NodeId router);

  void shorten(Held& work, const KvShortened& instead) const;
  void begin(const Held& work);
  bool running() const;
  Nanos longest_of(const std::vector<PrefillChunk>& step_chunks) const;
  void run_step();
  void learn();
  bool admit(const PrefillChunk& chunk);
  void finish_chunks(std::uint32_t rank, const std::vector<AttemptKey>& failed);
  void send_orders(std::uint32_t rank);
  void report();
  std::int64_t largest_rank() const;
  void give_up(const AttemptKey& key, Error error);
  void tell_lost(const Placement& placement, Error error) const;
};

void PrefillGroup::start(ContextPtr node, std::uint32_t part) {
  open.start(node);
  seat = {.part = part, .node = std::move(node)};
  fit.emplace(seat.node->options.prefill_cost);
  schedule.emplace(fit->model(), seat.node->options.prefill_limits);
  ranks.resize(seat.node->devices.size());
}

void PrefillGroup::place(const PlacePrefill& message) {
  const Placement& placement = *message.placement;
  if (placement.router.value >= received.size()) {
    return;
  }
  ++received[placement.router.value][static_cast<std::size_t>(placement.length_class)];
  // A pointer to KV memory passes through the router, so that must be in this process too.
  const bool stays =
      static_cast<bool>(seat.wiring->here().decode_group) && placement.router == seat.wiring->self;
  const Position start = placement.span.reuse.start;
  const auto [entry, added] =
      held.try_emplace(placement.key(), Held{with_keys(message.placement), nullptr, start, stays});
  if (!added) {
    report();  // placed twice: somebody's mistake, which must not bring the group down
    return;
  }
  if (!placement.loads()) {
    begin(entry->second);
  } else if (seat.wiring->kv_client) {
    entry->second.loading = true;
    notify(seat.wiring->kv_client, LoadKv{entry->second.placement});
  } else {
    const KvFound nothing = find_nothing(*placement.submission, reach_of(seat.node->shape));
    shorten(entry->second,
            {nothing, 0, Error{Code::kUnavailable, "the prefill node has no KV store"}});
    begin(entry->second);
  }
  run_step();
  report();
}

void PrefillGroup::loaded(KvLoaded& message) {
  const auto entry = held.find(message.key);
  if (entry == held.end() || !entry->second.loading) {
    return;  // released meanwhile
  }
  Held& work = entry->second;
  work.loading = false;
  work.loads = std::move(message.bytes);
  if (message.instead) {
    shorten(work, *message.instead);
  }
  begin(work);
  ++seat.progress;
  run_step();
  report();
}

// Not all of the hit could be loaded: the attempt goes on behind what could, and its router hears
// of that before anything else.
void PrefillGroup::shorten(Held& work, const KvShortened& instead) const {
  Placement placement = *work.placement;
  start_behind(placement, instead.found, fit->model());
  notify(seat.router_of(placement), instead);
  work.done = placement.span.reuse.start;
  work.placement = std::make_shared<const Placement>(std::move(placement));
}

void PrefillGroup::begin(const Held& work) {
  const Placement& placement = *work.placement;
  PrefillJob job;
  job.request = placement.submission->request;
  job.attempt = placement.submission->attempt;
  job.length_class = placement.length_class;
  job.span = placement.span;
  job.work = prefill_work(fit->model(), placement.span);
  job.arrived = seat.node->now();
  job.deadline = placement.submission->deadline;
  job.done = work.done;
  job.blocks = work.stays ? placement.blocks : worst_case_blocks(placement.span.total, 0);
  if (job.blocks > largest_rank()) {  // its balancer did not know yet
    give_up(placement.key(), Error{Code::kNoCapacity, "the request is larger than the KV memory"});
    return;
  }
  schedule->add(job);
}

void PrefillGroup::release(const ReleaseAttempt& message) {
  schedule->remove(message.key.request, message.key.attempt);
  held.erase(message.key);
  leaving.erase(message.key);
  for (const Rank& rank : ranks) {
    notify(rank.worker, message);
  }
  run_step();
  report();
}

// Predicted, of the rank that has most to do.
Nanos PrefillGroup::longest_of(const std::vector<PrefillChunk>& step_chunks) const {
  std::vector<Nanos> load(ranks.size(), fit->model().coefficients().step);
  for (const PrefillChunk& chunk : step_chunks) {
    load[chunk.rank] += chunk.cost;
  }
  return *std::max_element(load.begin(), load.end());
}

bool PrefillGroup::running() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.awaited; });
}

void PrefillGroup::run_step() {
  if (running()) {
    return;
  }
  std::vector<PrefillRank> rooms;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const kernels::KvArena& arena = seat.node->devices[r].backend->arena();
    rooms.push_back(
        {static_cast<bool>(ranks[r].worker), {arena.free_blocks(), arena.free_sequences()}});
  }
  chunks = schedule->plan(rooms, seat.node->now());
  std::erase_if(chunks,
                [this](const PrefillChunk& chunk) { return chunk.starts && !admit(chunk); });
  if (chunks.empty()) {
    return;
  }
  ++step.value;
  slowest.reset();
  step_ends = seat.node->now() + longest_of(chunks);
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    send_orders(r);
  }
}

bool PrefillGroup::admit(const PrefillChunk& chunk) {
  const AttemptKey key{chunk.request, chunk.attempt};
  const DevicePort& device = seat.node->devices[chunk.rank];
  held.at(key).kv = KvLease::take(
      device.backend->arena(), chunk.blocks, [group = me] { notify(group, KvReleased{}); });
  // Only a predecessor of this group that is just being ended can have taken memory since the plan.
  if (held.at(key).kv == nullptr) {
    give_up(key, Error{Code::kPeerLost, "KV memory went to a group that is being replaced"});
    return false;
  }
  notify(seat.router_of(*held.at(key).placement),
         PrefillStarted{key, static_cast<std::uint32_t>(chunk.rank)});
  return true;
}

void PrefillGroup::send_orders(std::uint32_t rank) {
  PrefillStep message{.epoch = ranks[rank].epoch, .step = step, .orders = {}};
  for (const PrefillChunk& chunk : chunks) {
    if (chunk.rank == rank) {
      Held& work = held.at({chunk.request, chunk.attempt});
      message.orders.push_back({work.placement,
                                work.kv,
                                work.done,
                                chunk.rows,
                                work.stays,
                                std::exchange(work.loads, {})});
    }
  }
  if (!message.orders.empty()) {
    ranks[rank].awaited = true;
    notify(ranks[rank].worker, std::move(message));
  }
}

void PrefillGroup::step_done(const PrefillStepDone& message) {
  Rank& rank = ranks.at(message.rank);
  if (!rank.awaited || message.epoch != rank.epoch || message.step != step) {
    return;
  }
  rank.awaited = false;
  ++seat.progress;
  finish_chunks(message.rank, message.failed);
  // A step that failed says nothing about how long one takes.
  if (message.failed.empty() && (!slowest || message.compute > slowest->compute)) {
    slowest = message;
  }
  if (!running()) {
    learn();
  }
  run_step();
  report();
}

// The ranks step together: what the slowest did took the time of all.
void PrefillGroup::learn() {
  if (!slowest) {
    return;
  }
  seat.node->log.event(LogLevel::kDebug,
                       "prefill.step",
                       {{"step", step.value},
                        {"rank", slowest->rank},
                        {"rows", slowest->work.rows},
                        {"predicted_ns", fit->model().step(slowest->work)},
                        {"compute_ns", slowest->compute}});
  fit->add(slowest->work, slowest->compute);
  slowest.reset();
  schedule->set_cost(fit->model());
  seat.node->metrics.prefill_cost.set(*fit);
}

void PrefillGroup::finish_chunks(std::uint32_t rank, const std::vector<AttemptKey>& failed) {
  for (const PrefillChunk& chunk : chunks) {
    const AttemptKey key{chunk.request, chunk.attempt};
    const auto work = held.find(key);
    if (chunk.rank != rank || work == held.end()) {
      continue;  // another rank's, or released meanwhile
    }
    const bool broken = std::find(failed.begin(), failed.end(), key) != failed.end();
    work->second.done += chunk.rows;
    if (broken || schedule->finish_chunk(chunk.request, chunk.attempt, chunk.rows)) {
      schedule->remove(chunk.request, chunk.attempt);
      if (!broken && !work->second.stays) {
        leaving[key] = {work->second.placement, rank};
      }
      held.erase(work);
    }
  }
}

void PrefillGroup::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  received.resize(seat.wiring->nodes.size());
  for (std::uint32_t n = 0; n < received.size(); ++n) {
    if (seat.wiring->lost(before->site(NodeId{n}))) {
      lose_router(NodeId{n});
    }
  }
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    const PrefillWorkerActor& worker = seat.wiring->prefill_workers[r];
    if (ranks[r].worker != worker) {
      monitors.forget(ranks[r].worker);
      lose(r);
      monitors.watch(worker, r);
      ranks[r].worker = worker;
    }
  }
  run_step();
  report();
}

// Its ledger is gone, and with it everybody who would release what it placed.
void PrefillGroup::lose_router(NodeId router) {
  received[router.value] = {};
  std::erase_if(leaving,
                [router](const auto& entry) { return entry.second.placement->router == router; });
  std::vector<AttemptKey> orphaned;
  for (const auto& [key, work] : held) {
    if (work.placement->router == router) {
      orphaned.push_back(key);
    }
  }
  for (const AttemptKey& key : orphaned) {
    schedule->remove(key.request, key.attempt);
    held.erase(key);
    for (const Rank& rank : ranks) {
      notify(rank.worker, ReleaseAttempt{key});
    }
  }
}

// What ran on the rank is tried again from its stream; the others go on.
void PrefillGroup::lose(std::uint32_t rank) {
  ranks[rank].worker = nullptr;
  ranks[rank].awaited = false;
  ++ranks[rank].epoch.value;
  for (const PrefillJob& job : schedule->lose_rank(rank)) {
    give_up({job.request, job.attempt}, Error{Code::kPeerLost, "the prefill worker was lost"});
  }
  lose_leaving(rank);
  run_step();
  report();
}

// The KV that a rank was copying out or had on offer is gone with it.
void PrefillGroup::lose_leaving(std::uint32_t rank) {
  std::erase_if(leaving, [this, rank](const auto& entry) {
    const bool lost = entry.second.rank == rank;
    if (lost) {
      tell_lost(*entry.second.placement,
                Error{Code::kPeerLost, "the prefill worker was lost with the KV"});
    }
    return lost;
  });
}

// A release that never came was lost with a link, and so was whoever sent it.
void PrefillGroup::tick() {
  std::erase_if(leaving, [now = seat.node->now()](const auto& entry) {
    return now >= entry.second.placement->submission->deadline;
  });
  open.set(held.size() + leaving.size());
  run_step();
}

void PrefillGroup::give_up(const AttemptKey& key, Error error) {
  schedule->remove(key.request, key.attempt);
  if (const auto work = held.find(key); work != held.end()) {
    tell_lost(*work->second.placement, std::move(error));
    held.erase(work);
  }
}

void PrefillGroup::tell_lost(const Placement& placement, Error error) const {
  notify(seat.router_of(placement), AttemptLost{placement.key(), std::move(error), {}});
}

std::int64_t PrefillGroup::largest_rank() const {
  std::int64_t blocks = 0;
  for (const DevicePort& device : seat.node->devices) {
    blocks = std::max(blocks, device.backend->arena().blocks());
  }
  return blocks;
}

void PrefillGroup::report() {
  open.set(held.size() + leaving.size());
  PrefillBacklog backlog = schedule->backlog();
  for (const auto& [key, work] : held) {
    if (work.loading) {
      ++backlog.waiting[static_cast<std::size_t>(work.placement->length_class)];
      backlog.queued[static_cast<std::size_t>(work.placement->length_class)] +=
          prefill_work(fit->model(), work.placement->span);
    }
  }
  backlog.ranks.resize(ranks.size());
  if (running()) {
    backlog.step_left = std::max(Nanos{0}, step_ends - seat.node->now());
  }
  for (std::size_t n = 0; n < received.size(); ++n) {
    for (const PrefillBalancerActor& balancer : seat.wiring->nodes[n].prefill_balancers) {
      notify(balancer,
             PrefillLoad{seat.wiring->self, backlog, received[n], largest_rank(), fit->report()});
    }
  }
}

PrefillGroupActor::behavior_type prefill_group(
    PrefillGroupActor::stateful_pointer<PrefillGroup> self, ContextPtr node, std::uint32_t part) {
  PrefillGroup& state = self->state;
  state.start(std::move(node), part);
  state.me = self;
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
      [self](const PlacePrefill& m) { self->state.place(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](KvLoaded& m) { self->state.loaded(m); },
      [self](const KvReleased&) { self->state.run_step(); },
      [self](const PrefillStepDone& m) { self->state.step_done(m); },
  };
}

}  // namespace

PrefillGroupActor spawn_prefill_group(caf::actor_system& system,
                                      ContextPtr node,
                                      std::uint32_t part) {
  return system.spawn(prefill_group, std::move(node), part);
}

}  // namespace shoal
