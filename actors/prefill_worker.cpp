// Holds nothing between steps: an order brings its KV, and the step in flight keeps it until its
// result is read.
#include "actors/prefill_worker.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "actors/policy/prefill_rows.h"
#include "actors/step_results.h"

namespace shoal {
namespace {

// What a step's results make known: tokens first, so that a stream has the first token before
// decode can send the second.
struct Outcome {
  ShardBatches batches;
  std::vector<AnswerDone> ended;
  std::vector<PrefillDone> ready;
  std::vector<AttemptLost> lost;
};

struct PrefillWorker {
  static inline const char* name = "prefill_worker";

  PartSeat seat;
  PrefillWorkerActor me;
  std::uint32_t rank = 0;
  std::optional<PrefillStep> running;
  std::vector<AttemptKey> dropped;  // of the running step, released meanwhile

  void release(const ReleaseAttempt& message);
  void step(PrefillStep& message);
  void computed(const PrefillComputed& message);

  kernels::RowRun row_run(const PrefillOrder& order) const;
  void finish_order(const PrefillOrder& order,
                    const kernels::RunResult& result,
                    Outcome& outcome) const;
  void send(Outcome& outcome);

  bool is_dropped(const AttemptKey& key) const {
    return std::find(dropped.begin(), dropped.end(), key) != dropped.end();
  }
};

void PrefillWorker::release(const ReleaseAttempt& message) {
  if (running) {
    dropped.push_back(message.key);
  }
}

void PrefillWorker::step(PrefillStep& message) {
  running = std::move(message);
  dropped.clear();
  kernels::Launch launch;
  launch.plan.id = running->step;
  launch.plan.epoch = running->epoch;
  launch.plan.queue = kernels::Queue::kPrefill;
  std::vector<KvLeasePtr> leases;
  for (const PrefillOrder& order : running->orders) {
    launch.plan.runs.push_back(row_run(order));
    leases.push_back(order.kv);
    if (order.done == 0) {
      launch.fresh.push_back(order.kv->sequence());
    }
    seat.node->metrics.prefill_rows += order.rows;
  }
  // The leases ride with the launch: no block is given away under a running step, whoever dies.
  launch.done = [worker = me, leases = std::move(leases)](kernels::CompletedStep step) {
    notify(worker, PrefillComputed{std::move(step)});
  };
  seat.node->devices[rank].launcher->launch(std::move(launch));
}

kernels::RowRun PrefillWorker::row_run(const PrefillOrder& order) const {
  const Placement& placement = *order.placement;
  const Submission& submission = *placement.submission;
  const PrefillRows rows = prefill_rows(placement.span, order.done, order.rows);
  kernels::RowRun run;
  run.sequence = order.kv->sequence();
  run.first = rows.first;
  for (Position p = rows.first; p < rows.first + rows.count; ++p) {
    const bool in_prompt = p < placement.span.prompt;
    run.tokens.push_back(
        in_prompt ? (*submission.prompt)[static_cast<std::size_t>(p)]
                  : submission.forced[static_cast<std::size_t>(p - placement.span.prompt)]);
  }
  run.stack = rows.encoder_only ? kernels::Stack::kEncoder : kernels::Stack::kAll;
  run.finishes_prompt = rows.finishes_prompt;
  run.encoder_floor = placement.basis.replay_floor;
  run.decoder_floor = placement.basis.tail_start;
  run.blocks = order.kv->table(rows.first + rows.count);
  run.sample = rows.samples;
  if (rows.samples) {
    run.sampling = sample_spec(placement, static_cast<std::int64_t>(submission.forced.size()));
  }
  return run;
}

void PrefillWorker::computed(const PrefillComputed& message) {
  if (!running) {
    return;
  }
  const PrefillStep done = *std::exchange(running, std::nullopt);
  const kernels::CompletedStep& step = message.step;
  Outcome outcome;
  for (std::size_t i = 0; i < done.orders.size(); ++i) {
    const PrefillOrder& order = done.orders[i];
    if (!step.result) {
      outcome.lost.push_back({order.placement->key(), step.result.error()});
    } else if (!is_dropped(order.placement->key()) &&
               order.done + order.rows == order.placement->span.total) {
      finish_order(order, step.result->runs[i], outcome);
    }
  }
  ++seat.progress;
  ++seat.node->metrics.prefill_steps;
  seat.node->metrics.prefill_compute_ns += step.compute.count();
  PrefillStepDone report{.epoch = done.epoch, .step = done.step, .rank = rank, .failed = {}};
  for (const AttemptLost& lost : outcome.lost) {
    report.failed.push_back(lost.key);
  }
  send(outcome);
  notify(seat.wiring->prefill_group, std::move(report));
}

// The first token: sent from here, decode starts from it.
void PrefillWorker::finish_order(const PrefillOrder& order,
                                 const kernels::RunResult& result,
                                 Outcome& outcome) const {
  const Placement& placement = *order.placement;
  if (result.token < 0) {
    outcome.lost.push_back({placement.key(), Error{Code::kInternal, "the device drew no token"}});
    return;
  }
  const std::int64_t answered = static_cast<std::int64_t>(placement.submission->forced.size()) + 1;
  TokenRun run = token_run(placement, result, placement.span.total, answered);
  run.basis = placement.basis;
  if (run.finish != Finish::kNone) {
    outcome.ended.push_back({placement.key(), run.finish, answered});
  } else {
    outcome.ready.push_back(
        {{order.placement, order.kv, rank, placement.span.total, result.token, answered}});
  }
  seat.node->log.event(
      LogLevel::kDebug,
      "prefill.first_token",
      {{"request", run.request}, {"attempt", run.attempt}, {"position", run.first_position}});
  outcome.batches.add(placement.submission->shard, std::move(run));
}

void PrefillWorker::send(Outcome& outcome) {
  outcome.batches.send(seat.wiring->gateway);
  for (AnswerDone& ended : outcome.ended) {
    notify(seat.wiring->router, std::move(ended));
  }
  for (PrefillDone& ready : outcome.ready) {
    notify(seat.wiring->router, std::move(ready));
  }
  for (AttemptLost& lost : outcome.lost) {
    notify(seat.wiring->router, std::move(lost));
  }
}

PrefillWorkerActor::behavior_type prefill_worker(
    PrefillWorkerActor::stateful_pointer<PrefillWorker> self,
    ContextPtr node,
    std::uint32_t part,
    std::uint32_t rank) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.rank = rank;
  self->state.me = self;
  return {
      [self](const Rewire& m) { self->state.seat.wiring = m.wiring; },
      [self](const Ping&) { self->state.seat.answer_ping(self->state.running.has_value()); },
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](PrefillStep& m) { self->state.step(m); },
      [self](const PrefillComputed& m) { self->state.computed(m); },
  };
}

}  // namespace

PrefillWorkerActor spawn_prefill_worker(caf::actor_system& system,
                                        ContextPtr node,
                                        std::uint32_t part,
                                        std::uint32_t rank) {
  return system.spawn(prefill_worker, std::move(node), part, rank);
}

}  // namespace shoal
