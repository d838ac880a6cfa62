// A run per sequence and step; what ends is let go at once, and its memory with the last step that
// has it.
#include "actors/decode_worker.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/decode_sequence.h"
#include "actors/departures.h"
#include "actors/kv_image.h"
#include "actors/policy/token_rules.h"
#include "actors/step_results.h"
#include "actors/tail_copy.h"

namespace shoal {
namespace {

struct DecodeWorker {
  static inline const char* name = "decode_worker";

  struct Running {
    EpochId epoch;
    StepId step;
    std::vector<AttemptKey> rows;
    std::vector<KvLeasePtr> leases;  // of the rows: an attempt may come again in another place
    std::vector<std::size_t> saves;  // numbers of the rows that may complete a block
    std::vector<AttemptKey> yields;  // of the rows that leave behind it
    bool goes_on = false;            // some of them were in the step before

    bool has(const AttemptKey& key) const {
      return std::find(rows.begin(), rows.end(), key) != rows.end();
    }
  };

  // Its KV is on the way.
  struct Arriving {
    JoinDecode order;
    std::uint64_t arrival = 0;  // what comes for an earlier try is dropped
  };

  PartSeat seat;
  DecodeWorkerActor me;
  std::uint32_t rank = 0;
  std::map<AttemptKey, DecodeSequence> sequences;
  std::map<AttemptKey, Arriving> arriving;
  std::uint64_t arrivals = 0;
  std::size_t copying = 0;      // onto the device, awaited or not
  std::deque<Running> running;  // the one that runs, and the one prepared behind it
  Departures departures;        // to other ranks, until they have them
  EpochId epoch;                // of what joined last

  bool has_work() const {
    return !running.empty() || copying > 0 || departures.is_copying() || !arriving.empty();
  }

  void rewire(const Rewire& message);

  void join(JoinDecode& message);
  void fetched(const KvFetched& message);
  void imported(const KvImported& message);

  void release(const ReleaseAttempt& message);

  void move(const MoveDecode& message);
  void exported(KvExported& message);

  void step(const DecodeStep& message);
  void computed(const DecodeComputed& message);

  void joined(Handover handover, EpochId of_rank);
  void yield(const AttemptKey& key);
  bool is_awaited(const AttemptKey& key, std::uint64_t arrival) const;
  void lose_arriving(const AttemptKey& key, const Error& error);
  void lose(const Placement& placement, const Error& error) const;
  void add_row(Running& step,
               const DecodeStep& message,
               const DecodeSequence& sequence,
               kernels::Launch& launch) const;
  DecodeSequence* row(const Running& step, std::size_t i);
  void read(const Running& step, const kernels::CompletedStep& done, DecodeStepDone& report);
  void note_drafts(const DecodeSequence& sequence) const;
  void store(const Running& step, const kernels::CompletedStep& done);
  bool advance(Handover& sequence,
               const kernels::RunResult& result,
               ShardBatches& batches,
               std::vector<std::pair<PlacementPtr, AnswerDone>>& done);
  void lose_all(const Running& step, const Error& error);
};

void DecodeWorker::join(JoinDecode& message) {
  const AttemptKey key = message.handover.key();
  if (message.handover.buffer == BufferKey{}) {
    joined(std::move(message.handover), message.epoch);
    return;
  }
  const Submission& submission = *message.handover.placement->submission;
  const Instant due = std::min(submission.deadline,
                               seat.node->now() + seat.node->options.request_limits.handing_over);
  const NodeId from = message.handover.node;
  const BufferKey buffer = message.handover.buffer;
  const std::uint64_t arrival = ++arrivals;
  arriving.insert_or_assign(key, Arriving{std::move(message), arrival});
  if (from == seat.wiring->self) {
    const transport::Buffer own = seat.node->transport()->offered(buffer);
    notify(me,
           KvFetched{
               key,
               arrival,
               own ? Result<KvImage>(own) : fail(Code::kPeerLost, "the KV buffer was withdrawn")});
    return;
  }
  seat.node->transport()->fetch(
      from, buffer, due, [worker = me, key, arrival](Result<transport::Buffer> image) {
        notify(worker, KvFetched{key, arrival, std::move(image)});
      });
}

// False: released meanwhile, or taken up anew.
bool DecodeWorker::is_awaited(const AttemptKey& key, std::uint64_t arrival) const {
  const auto entry = arriving.find(key);
  return entry != arriving.end() && entry->second.arrival == arrival;
}

void DecodeWorker::fetched(const KvFetched& message) {
  if (!is_awaited(message.key, message.arrival)) {
    return;
  }
  if (!message.image) {
    lose_arriving(message.key, message.image.error());
    return;
  }
  Handover& handover = arriving.at(message.key).order.handover;
  if (const auto checked = check_kv_image(handover, **message.image); !checked) {
    lose_arriving(message.key, checked.error());
    return;
  }
  auto front = front_of_kv_image(**message.image);
  if (!front) {
    lose_arriving(message.key, front.error());
    return;
  }
  handover.seen = std::move(front->seen);
  kernels::KvImport copy{.queue = kernels::Queue::kDecode,
                         .sequence = handover.kv->sequence(),
                         .blocks = handover.kv->table(handover.position),
                         .image = *message.image,
                         .offset = front->device,
                         .done = {}};
  // The lease rides with the copy: no block is given away under it, whoever dies.
  copy.done = [worker = me, key = message.key, arrival = message.arrival, lease = handover.kv](
                  Result<void> outcome) {
    notify(worker, KvImported{key, arrival, std::move(outcome)});
  };
  ++copying;
  seat.node->devices[rank].launcher->copy_in(std::move(copy));
}

void DecodeWorker::imported(const KvImported& message) {
  --copying;
  if (!is_awaited(message.key, message.arrival)) {
    return;
  }
  if (!message.outcome) {
    lose_arriving(message.key, message.outcome.error());
    return;
  }
  JoinDecode arrived = std::move(arriving.extract(message.key).mapped().order);
  joined(std::move(arrived.handover), arrived.epoch);
}

void DecodeWorker::joined(Handover handover, EpochId of_rank) {
  const AttemptKey key = handover.key();
  ++seat.progress;
  epoch = of_rank;
  notify(seat.router_of(*handover.placement), DecodeJoined{key, seat.wiring->self, rank});
  sequences.insert_or_assign(key, decode_sequence(std::move(handover)));
  notify(seat.wiring->here().decode_group, DecodeReady{epoch, rank, key});
}

// The router releases it here, and may have it handed over again.
void DecodeWorker::lose_arriving(const AttemptKey& key, const Error& error) {
  const auto entry = arriving.extract(key);
  notify(seat.router_of(*entry.mapped().order.handover.placement),
         AttemptLost{key, error, seat.wiring->self});
}

void DecodeWorker::lose(const Placement& placement, const Error& error) const {
  notify(seat.router_of(placement), AttemptLost{placement.key(), error, {}});
}

// A stream that saw its stop string, or a client that left: the next turn may go on from here.
void DecodeWorker::release(const ReleaseAttempt& message) {
  arriving.erase(message.key);
  departures.release(message.key);
  if (const auto sequence = sequences.extract(message.key); sequence && !message.failed) {
    keep_tail(seat, rank, sequence.mapped().at, kernels::Queue::kDecode);
  }
}

// Its group plans no further step with it.
void DecodeWorker::move(const MoveDecode& message) {
  const auto last =
      std::find_if(running.rbegin(), running.rend(), [&key = message.key](const Running& step) {
        return step.has(key);
      });
  if (last != running.rend()) {
    last->yields.push_back(message.key);
  } else {
    yield(message.key);
  }
}

// Nothing, if it ended or was released.
void DecodeWorker::yield(const AttemptKey& key) {
  auto sequence = sequences.extract(key);
  if (!sequence) {
    return;
  }
  Handover& handover = sequence.mapped().at;
  handover.node = seat.wiring->self;
  handover.rank = rank;
  handover.buffer = seat.node->next_buffer();
  departures.copy_out(
      seat, kernels::Queue::kDecode, std::move(handover), [worker = me](KvExported copy) {
        notify(worker, std::move(copy));
      });
}

// What cannot be put on offer stays in the batch: nobody is worse off than before.
void DecodeWorker::exported(KvExported& message) {
  const auto offered = departures.offer(seat, message);
  if (!offered) {
    return;
  }
  ++seat.progress;
  Handover& handover = message.handover;
  const AttemptKey key = handover.key();
  if (*offered) {
    handover.kv = nullptr;
    ++seat.node->metrics.decode_yielded;
    // First: it may be handed over to this very rank again.
    notify(seat.wiring->here().decode_group, DecodeYielded{handover});
    const PlacementPtr placement = handover.placement;
    notify(seat.router_of(*placement), DecodeYielded{std::move(handover)});
    return;
  }
  seat.node->log.event(LogLevel::kWarning,
                       "decode.not_moved",
                       {{"request", key.request}, {"reason", offered->error().message}});
  notify(seat.wiring->at(handover.placement->router).decode_balancer,
         DecodeKept{key, seat.wiring->self});
  handover.buffer = {};
  sequences.insert_or_assign(key, decode_sequence(std::move(handover)));
  notify(seat.wiring->here().decode_group, DecodeReady{epoch, rank, key});
}

void DecodeWorker::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  departures.lose_routers(*before, *seat.wiring);
}

void DecodeWorker::step(const DecodeStep& message) {
  Running& step = running.emplace_back(Running{message.epoch, message.step, {}, {}, {}, {}, false});
  kernels::Launch launch;
  launch.plan.id = message.step;
  launch.plan.epoch = message.epoch;
  launch.plan.queue = kernels::Queue::kDecode;
  launch.plan.fill = message.fill;
  for (const AttemptKey& key : message.rows) {
    const auto sequence = sequences.find(key);
    if (sequence != sequences.end()) {  // else released after the step was planned
      step.rows.push_back(key);
      add_row(step, message, sequence->second, launch);
      step.leases.push_back(sequence->second.at.kv);
      step.goes_on = step.goes_on || sequence->second.runs_on;
      sequence->second.runs_on = true;
    }
  }
  // The leases ride with the launch: no block is given away under a running step, whoever dies.
  launch.done = [worker = me, leases = step.leases](kernels::CompletedStep done) {
    notify(worker, DecodeComputed{std::move(done)});
  };
  if (step.rows.empty()) {
    launch.done({kernels::StepResult{}, Nanos{0}});
    return;
  }
  seat.node->devices[rank].launcher->launch(std::move(launch));
}

void DecodeWorker::add_row(Running& step,
                           const DecodeStep& message,
                           const DecodeSequence& sequence,
                           kernels::Launch& launch) const {
  const std::size_t run = launch.plan.runs.size();
  launch.plan.runs.push_back(decode_run(sequence, message));
  const auto most = static_cast<Position>(running.size()) * (1 + kMostDrafts);
  if (const auto save = block_to_save(sequence, run, most)) {
    launch.saves.push_back(*save);
    step.saves.push_back(run);
  }
}

void DecodeWorker::computed(const DecodeComputed& message) {
  if (running.empty()) {
    return;
  }
  const Running step = std::move(running.front());
  running.pop_front();
  ++seat.progress;
  ++seat.node->metrics.decode_steps;
  seat.node->metrics.decode_compute_ns += message.step.compute.count();
  seat.node->metrics.decode_idle_ns += step.goes_on ? message.step.idle.count() : 0;
  if (!message.step.result) {
    lose_all(step, message.step.result.error());
    return;
  }
  DecodeStepDone report{.epoch = step.epoch,
                        .step = step.step,
                        .rank = rank,
                        .ended = {},
                        .compute = message.step.compute};
  store(step, message.step);
  read(step, message.step, report);
  for (const AttemptKey& key : step.yields) {
    yield(key);
  }
  seat.node->metrics.decode_rows += report.tally.rows;
  seat.node->metrics.decode_tokens += report.tally.drawn;
  notify(seat.wiring->here().decode_group, std::move(report));
}

// Null: it ended with the step before, or was released.
DecodeSequence* DecodeWorker::row(const Running& step, std::size_t i) {
  const auto sequence = sequences.find(step.rows[i]);
  const bool same = sequence != sequences.end() && sequence->second.at.kv == step.leases[i];
  return same ? &sequence->second : nullptr;
}

void DecodeWorker::read(const Running& step,
                        const kernels::CompletedStep& done,
                        DecodeStepDone& report) {
  ShardBatches batches;
  std::vector<std::pair<PlacementPtr, AnswerDone>> ended;
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    DecodeSequence* sequence = row(step, i);
    if (sequence == nullptr) {
      continue;
    }
    add_to(report.tally, *sequence, done.result->runs[i]);
    if (!advance(sequence->at, done.result->runs[i], batches, ended)) {
      report.ended.push_back(step.rows[i]);
      note_drafts(*sequence);
      sequences.erase(step.rows[i]);
    }
  }
  batches.send(*seat.wiring);
  for (auto& [placement, answer] : ended) {
    notify(seat.router_of(*placement), std::move(answer));
  }
}

void DecodeWorker::note_drafts(const DecodeSequence& sequence) const {
  if (sequence.verified > 0) {
    seat.node->log.event(LogLevel::kDebug,
                         "decode.drafts",
                         {{"request", sequence.at.key().request},
                          {"verified", sequence.verified},
                          {"accepted", sequence.accepted}});
  }
}

// The rows that stay are part of their sequences now.
void DecodeWorker::store(const Running& step, const kernels::CompletedStep& done) {
  StoreKv message;
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    DecodeSequence* sequence = row(step, i);
    if (sequence == nullptr || sequence->at.placement->kv == nullptr) {
      continue;
    }
    const auto save = std::find(step.saves.begin(), step.saves.end(), i);
    const kernels::BlockBytes bytes =
        save == step.saves.end()
            ? nullptr
            : done.saved.at(static_cast<std::size_t>(save - step.saves.begin()));
    if (auto block = extend_over(*sequence, done.result->runs[i], bytes)) {
      message.blocks.push_back(*std::move(block));
    }
  }
  if (!message.blocks.empty()) {
    notify(seat.wiring->kv_client, std::move(message));
  }
}

// False: the answer is complete.
bool DecodeWorker::advance(Handover& sequence,
                           const kernels::RunResult& result,
                           ShardBatches& batches,
                           std::vector<std::pair<PlacementPtr, AnswerDone>>& done) {
  const Placement& placement = *sequence.placement;
  if (result.drawn.empty()) {
    lose(placement, Error{Code::kInternal, "the device drew no token"});
    return false;
  }
  TokenRun run = token_run(placement, result.drawn, sequence.position + 1, sequence.answered + 1);
  const auto count = std::ssize(run.tokens);
  sequence.position += count;
  sequence.answered += count;
  sequence.token = run.tokens.back();
  for (const TokenId token : run.tokens) {
    add_token(sequence.seen, placement.submission->sampling, token);
  }
  const Finish finish = run.finish;
  batches.add(*placement.submission, std::move(run));
  if (finish != Finish::kNone) {
    keep_tail(seat, rank, sequence, kernels::Queue::kDecode);
    done.emplace_back(sequence.placement, AnswerDone{placement.key(), finish, sequence.answered});
  }
  return finish == Finish::kNone;
}

void DecodeWorker::lose_all(const Running& step, const Error& error) {
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    if (row(step, i) != nullptr) {
      lose(*sequences.extract(step.rows[i]).mapped().at.placement, error);
    }
  }
  notify(seat.wiring->here().decode_group,
         DecodeStepDone{step.epoch, step.step, rank, step.rows, {}, Nanos{0}});
}

DecodeWorkerActor::behavior_type decode_worker(
    DecodeWorkerActor::stateful_pointer<DecodeWorker> self,
    ContextPtr node,
    std::uint32_t part,
    std::uint32_t rank) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.rank = rank;
  self->state.me = self;
  self->state.departures.count_as_open(self->state.seat.node);
  if (self->state.seat.node->transport() != nullptr) {
    send_after(self, self->state.seat.node->options.tick, Tick{});
  }
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(self->state.has_work()); },
      [self](const Tick&) {
        self->state.departures.expire(self->state.seat.node->now());
        send_after(self, self->state.seat.node->options.tick, Tick{});
      },
      [self](JoinDecode& m) { self->state.join(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](const MoveDecode& m) { self->state.move(m); },
      [self](KvExported& m) { self->state.exported(m); },
      [self](const ReleaseHandover& m) { self->state.departures.release(m.key, m.buffer); },
      [self](const KvFetched& m) { self->state.fetched(m); },
      [self](const KvImported& m) { self->state.imported(m); },
      [self](const DecodeStep& m) { self->state.step(m); },
      [self](const DecodeComputed& m) { self->state.computed(m); },
  };
}

}  // namespace

DecodeWorkerActor spawn_decode_worker(caf::actor_system& system,
                                      ContextPtr node,
                                      std::uint32_t part,
                                      std::uint32_t rank) {
  return system.spawn(decode_worker, std::move(node), part, rank);
}

}  // namespace shoal
