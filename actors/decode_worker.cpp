// One row per running sequence and step; what ends is let go at once, and its memory with it.
#include "actors/decode_worker.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/step_results.h"

namespace shoal {
namespace {

struct DecodeWorker {
  static inline const char* name = "decode_worker";

  struct Running {
    EpochId epoch;
    StepId step;
    std::vector<AttemptKey> rows;
  };

  PartSeat seat;
  DecodeWorkerActor me;
  std::uint32_t rank = 0;
  std::map<AttemptKey, Handover> sequences;
  std::optional<Running> running;

  void join(JoinDecode& message);

  void release(const ReleaseAttempt& message) { sequences.erase(message.key); }

  void step(const DecodeStep& message);
  void computed(const DecodeComputed& message);

  kernels::RowRun row_run(const Handover& sequence) const;
  bool advance(Handover& sequence,
               const kernels::RunResult& result,
               ShardBatches& batches,
               std::vector<AnswerDone>& done);
  void lose_all(const Running& step, const Error& error);
};

void DecodeWorker::join(JoinDecode& message) {
  const AttemptKey key = message.handover.key();
  sequences[key] = std::move(message.handover);
  notify(seat.wiring->router, DecodeJoined{key, rank});
}

void DecodeWorker::step(const DecodeStep& message) {
  running = Running{message.epoch, message.step, {}};
  kernels::Launch launch;
  launch.plan.id = message.step;
  launch.plan.epoch = message.epoch;
  launch.plan.queue = kernels::Queue::kDecode;
  std::vector<KvLeasePtr> leases;
  for (const AttemptKey& key : message.rows) {
    const auto sequence = sequences.find(key);
    if (sequence != sequences.end()) {  // else released after the step was planned
      running->rows.push_back(key);
      launch.plan.runs.push_back(row_run(sequence->second));
      leases.push_back(sequence->second.kv);
    }
  }
  // The leases ride with the launch: no block is given away under a running step, whoever dies.
  launch.done = [worker = me, leases = std::move(leases)](kernels::CompletedStep step) {
    notify(worker, DecodeComputed{std::move(step)});
  };
  seat.node->metrics.decode_rows += static_cast<std::int64_t>(running->rows.size());
  if (running->rows.empty()) {
    launch.done({kernels::StepResult{}, Nanos{0}});
    return;
  }
  seat.node->devices[rank].launcher->launch(std::move(launch));
}

kernels::RowRun DecodeWorker::row_run(const Handover& sequence) const {
  kernels::RowRun run;
  run.sequence = sequence.kv->sequence();
  run.first = sequence.position;
  run.tokens = {sequence.token};
  run.encoder_floor = sequence.placement->basis.replay_floor;
  run.decoder_floor = sequence.placement->basis.tail_start;
  run.blocks = sequence.kv->table(sequence.position + 1);
  run.sample = true;
  run.sampling = sample_spec(*sequence.placement, sequence.answered);
  return run;
}

void DecodeWorker::computed(const DecodeComputed& message) {
  if (!running) {
    return;
  }
  const Running step = *std::exchange(running, std::nullopt);
  ++seat.progress;
  ++seat.node->metrics.decode_steps;
  seat.node->metrics.decode_compute_ns += message.step.compute.count();
  if (!message.step.result) {
    lose_all(step, message.step.result.error());
    return;
  }
  ShardBatches batches;
  std::vector<AnswerDone> done;
  DecodeStepDone report{.epoch = step.epoch, .step = step.step, .rank = rank, .ended = {}};
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const auto sequence = sequences.find(step.rows[i]);
    if (sequence != sequences.end() &&
        !advance(sequence->second, message.step.result->runs[i], batches, done)) {
      report.ended.push_back(step.rows[i]);
      sequences.erase(sequence);
    }
  }
  batches.send(seat.wiring->gateway);
  for (AnswerDone& ended : done) {
    notify(seat.wiring->router, std::move(ended));
  }
  notify(seat.wiring->decode_group, std::move(report));
}

// False: the answer is complete.
bool DecodeWorker::advance(Handover& sequence,
                           const kernels::RunResult& result,
                           ShardBatches& batches,
                           std::vector<AnswerDone>& done) {
  const Placement& placement = *sequence.placement;
  if (result.token < 0) {
    notify(seat.wiring->router,
           AttemptLost{placement.key(), Error{Code::kInternal, "the device drew no token"}});
    return false;
  }
  ++sequence.position;
  ++sequence.answered;
  sequence.token = result.token;
  TokenRun run = token_run(placement, result, sequence.position, sequence.answered);
  const Finish finish = run.finish;
  batches.add(placement.submission->shard, std::move(run));
  if (finish != Finish::kNone) {
    done.push_back({placement.key(), finish, sequence.answered});
  }
  return finish == Finish::kNone;
}

void DecodeWorker::lose_all(const Running& step, const Error& error) {
  for (const AttemptKey& key : step.rows) {
    sequences.erase(key);
    notify(seat.wiring->router, AttemptLost{key, error});
  }
  notify(seat.wiring->decode_group, DecodeStepDone{step.epoch, step.step, rank, step.rows});
}

DecodeWorkerActor::behavior_type decode_worker(
    DecodeWorkerActor::stateful_pointer<DecodeWorker> self,
    ContextPtr node,
    std::uint32_t part,
    std::uint32_t rank) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.rank = rank;
  self->state.me = self;
  return {
      [self](const Rewire& m) { self->state.seat.wiring = m.wiring; },
      [self](const Ping&) { self->state.seat.answer_ping(self->state.running.has_value()); },
      [self](JoinDecode& m) { self->state.join(m); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
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
