// Holds no KV between steps: an order brings it, and the step in flight keeps it until its result
// is read. What goes on in another process is copied out and offered there until decode has it.
#include "actors/prefill_worker.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/departures.h"
#include "actors/policy/prefill_rows.h"
#include "actors/policy/token_rules.h"
#include "actors/step_results.h"
#include "actors/tail_copy.h"
#include "schemas/checksum.h"

namespace shoal {
namespace {

// What a step's results make known: tokens first, so that a stream has the first token before
// decode can send the second.
struct Outcome {
  ShardBatches batches;
  std::vector<std::pair<PlacementPtr, AnswerDone>> ended;
  std::vector<Handover> ready;
  std::vector<std::pair<PlacementPtr, Error>> lost;
};

// What the order completes and was not loaded, as numbers in its sequence.
std::vector<std::size_t> finished_blocks(const PrefillOrder& order) {
  std::vector<std::size_t> blocks;
  const Position first = std::max(order.placement->span.reuse.hit, order.done) / kBlockTokens;
  for (Position b = first; order.placement->kv && (b + 1) * kBlockTokens <= order.done + order.rows;
       ++b) {
    blocks.push_back(static_cast<std::size_t>(b));
  }
  return blocks;
}

StepWork work_of(const PrefillStep& step) {
  StepWork work;
  for (const PrefillOrder& order : step.orders) {
    work.add(order.rows, order.done, deep_rows(order.placement->span, order.done, order.rows));
  }
  return work;
}

struct PrefillWorker {
  static inline const char* name = "prefill_worker";

  PartSeat seat;
  PrefillWorkerActor me;
  std::uint32_t rank = 0;
  std::optional<PrefillStep> running;
  std::vector<AttemptKey> dropped;     // of the running step, released meanwhile
  std::vector<TokenTallyPtr> tallies;  // of its orders, up to the token that it draws

  Departures departures;  // from the end of their prefill until they are released
  // Of the blocks of what is under way, as far as it was computed here.
  std::map<AttemptKey, std::uint64_t> lineages;

  bool has_work() const { return running || departures.is_copying(); }

  void rewire(const Rewire& message);
  void exported(KvExported& message);
  void release(const ReleaseAttempt& message);
  void step(PrefillStep& message);
  void computed(const PrefillComputed& message);

  kernels::RowRun row_run(const PrefillOrder& order) const;
  void store(const PrefillStep& done, const std::vector<kernels::BlockBytes>& saved);
  std::uint64_t& lineage_of(const Placement& placement);
  void finish_order(const PrefillOrder& order,
                    TokenTallyPtr seen,
                    const kernels::RunResult& result,
                    Outcome& outcome);
  void send(Outcome& outcome);
  void copy_out(Handover handover);
  void lose(const Placement& placement, Error error) const;

  bool is_dropped(const AttemptKey& key) const {
    return std::find(dropped.begin(), dropped.end(), key) != dropped.end();
  }
};

void PrefillWorker::release(const ReleaseAttempt& message) {
  departures.release(message.key);
  lineages.erase(message.key);
  if (running) {
    dropped.push_back(message.key);
  }
}

void PrefillWorker::step(PrefillStep& message) {
  running = std::move(message);
  dropped.clear();
  tallies.clear();
  kernels::Launch launch;
  launch.plan.id = running->step;
  launch.plan.epoch = running->epoch;
  launch.plan.queue = kernels::Queue::kPrefill;
  std::vector<KvLeasePtr> leases;
  for (const PrefillOrder& order : running->orders) {
    launch.plan.runs.push_back(row_run(order));
    tallies.push_back(launch.plan.runs.back().sampling.seen);
    leases.push_back(order.kv);
    const bool begins = order.done == order.placement->span.reuse.start;
    if (begins && order.placement->tail) {
      launch.tails.push_back({order.kv->sequence(), order.loads.tail, kTailHeader});
    } else if (begins) {
      launch.fresh.push_back(order.kv->sequence());
    }
    for (std::size_t b = 0; b < order.loads.blocks.size(); ++b) {
      launch.loads.push_back({order.kv->blocks()[b], order.loads.blocks[b]});
    }
    for (const std::size_t block : finished_blocks(order)) {
      launch.saves.push_back({launch.plan.runs.size() - 1,
                              order.kv->blocks()[block],
                              static_cast<Position>(block + 1) * kBlockTokens});
    }
    seat.node->metrics.prefill_rows += order.rows;
    seat.node->metrics.fed_rows += launch.plan.runs.back().feeds_drafts ? order.rows : 0;
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
  const PrefillRows rows = prefill_rows(placement.span, placement.basis, order.done, order.rows);
  kernels::RowRun run;
  run.sequence = order.kv->sequence();
  run.first = rows.first;
  for (Position p = rows.first; p < rows.first + rows.count; ++p) {
    run.tokens.push_back(token_at(submission, p));
  }
  for (Position p = std::max<Position>(0, rows.first - kernels::kHistoryTokens);
       rows.begins && !placement.tail && p < rows.first;
       ++p) {
    run.history.push_back(token_at(submission, p));
  }
  run.stack = rows.encoder_only ? kernels::Stack::kEncoder : kernels::Stack::kAll;
  run.finishes_prompt = rows.finishes_prompt;
  run.writes_from = placement.span.reuse.hit;
  run.encoder_floor = rows.encoder_floor;
  run.decoder_floor = rows.decoder_floor;
  run.blocks = order.kv->table(rows.first + rows.count);
  run.feeds_drafts = seat.node->shape.drafts > 0 && seat.node->feeds_drafts;
  run.sample = rows.samples;
  if (rows.samples) {
    run.sampling =
        sample_spec(placement,
                    static_cast<std::int64_t>(submission.forced.size()),
                    tally_of(submission.sampling, *submission.prompt, submission.forced));
  }
  return run;
}

void PrefillWorker::computed(const PrefillComputed& message) {
  if (!running) {
    return;
  }
  const PrefillStep done = *std::exchange(running, std::nullopt);
  const kernels::CompletedStep& step = message.step;
  store(done, step.saved);
  Outcome outcome;
  for (std::size_t i = 0; i < done.orders.size(); ++i) {
    const PrefillOrder& order = done.orders[i];
    if (!step.result) {
      lineages.erase(order.placement->key());
      outcome.lost.emplace_back(order.placement, step.result.error());
    } else if (!is_dropped(order.placement->key()) &&
               order.done + order.rows == order.placement->span.total) {
      finish_order(order, tallies[i], step.result->runs[i], outcome);
    }
  }
  ++seat.progress;
  ++seat.node->metrics.prefill_steps;
  seat.node->metrics.prefill_compute_ns += step.compute.count();
  PrefillStepDone report{.epoch = done.epoch,
                         .step = done.step,
                         .rank = rank,
                         .failed = {},
                         .work = work_of(done),
                         .compute = step.compute};
  for (const auto& [placement, error] : outcome.lost) {
    report.failed.push_back(placement->key());
  }
  send(outcome);
  notify(seat.wiring->here().prefill_group, std::move(report));
}

void PrefillWorker::store(const PrefillStep& done, const std::vector<kernels::BlockBytes>& saved) {
  StoreKv message;
  for (const PrefillOrder& order : done.orders) {
    for (const std::size_t block : finished_blocks(order)) {
      if (message.blocks.size() == saved.size()) {
        break;  // the step failed
      }
      const Placement& placement = *order.placement;
      KvBlock header = header_of(*placement.kv, *placement.submission, block);
      header.provenance = provenance_of(placement.basis);
      const kernels::BlockBytes& bytes = saved[message.blocks.size()];
      if (!is_dropped(placement.key())) {
        std::uint64_t& lineage = lineage_of(placement);
        lineage = next_lineage(lineage, header.key, header.provenance, crc32c(*bytes));
      }
      message.blocks.push_back({placement.kv->root, header, bytes});
    }
  }
  if (!message.blocks.empty()) {
    notify(seat.wiring->kv_client, std::move(message));
  }
}

// Before anything was computed: of what was loaded.
std::uint64_t& PrefillWorker::lineage_of(const Placement& placement) {
  return lineages.try_emplace(placement.key(), placement.lineage).first->second;
}

// The first token: sent from here, decode starts from it.
void PrefillWorker::finish_order(const PrefillOrder& order,
                                 TokenTallyPtr seen,
                                 const kernels::RunResult& result,
                                 Outcome& outcome) {
  const Placement& placement = *order.placement;
  const std::uint64_t lineage = lineage_of(placement);
  lineages.erase(placement.key());
  if (result.drawn.empty()) {
    outcome.lost.emplace_back(order.placement, Error{Code::kInternal, "the device drew no token"});
    return;
  }
  const std::int64_t answered = static_cast<std::int64_t>(placement.submission->forced.size()) + 1;
  TokenRun run = token_run(placement, result.drawn, placement.span.total, answered);
  run.basis = placement.basis;
  run.cached_tokens = placement.cached;
  if (run.finish != Finish::kNone) {
    outcome.ended.emplace_back(order.placement, AnswerDone{placement.key(), run.finish, answered});
  } else {
    add_token(seen, placement.submission->sampling, result.drawn.front().token);
    outcome.ready.push_back({.placement = order.placement,
                             .kv = order.kv,
                             .node = seat.wiring->self,
                             .rank = rank,
                             .buffer = order.stays ? BufferKey{} : seat.node->next_buffer(),
                             .position = placement.span.total,
                             .token = result.drawn.front().token,
                             .answered = answered,
                             .chain = placement.kv == nullptr
                                          ? KvChain{}
                                          : chain_of(*placement.kv, *placement.submission, lineage),
                             .seen = std::move(seen)});
  }
  seat.node->log.event(
      LogLevel::kDebug,
      "prefill.first_token",
      {{"request", run.request}, {"attempt", run.attempt}, {"position", run.first_position}});
  outcome.batches.add(*placement.submission, std::move(run));
}

void PrefillWorker::send(Outcome& outcome) {
  outcome.batches.send(*seat.wiring);
  for (auto& [placement, ended] : outcome.ended) {
    notify(seat.router_of(*placement), std::move(ended));
  }
  for (Handover& ready : outcome.ready) {
    // Where decode goes on here, ahead of its steps.
    const bool stays = ready.buffer == BufferKey{};
    keep_tail(seat, rank, ready, stays ? kernels::Queue::kDecode : kernels::Queue::kPrefill);
    if (stays) {
      const PlacementPtr placement = ready.placement;
      notify(seat.router_of(*placement), PrefillDone{std::move(ready)});
    } else {
      copy_out(std::move(ready));
    }
  }
  for (auto& [placement, error] : outcome.lost) {
    lose(*placement, std::move(error));
  }
}

void PrefillWorker::lose(const Placement& placement, Error error) const {
  notify(seat.router_of(placement), AttemptLost{placement.key(), std::move(error), {}});
}

void PrefillWorker::copy_out(Handover handover) {
  departures.copy_out(
      seat, kernels::Queue::kPrefill, std::move(handover), [worker = me](KvExported copy) {
        notify(worker, std::move(copy));
      });
}

void PrefillWorker::exported(KvExported& message) {
  message.handover.kv = nullptr;  // no later than here: others wait for the memory
  const auto offered = departures.offer(seat, message);
  if (!offered) {
    return;
  }
  ++seat.progress;
  if (!*offered) {
    lose(*message.handover.placement, offered->error());
    return;
  }
  notify(seat.router_of(*message.handover.placement), PrefillDone{message.handover});
}

void PrefillWorker::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  departures.lose_routers(*before, *seat.wiring);
}

PrefillWorkerActor::behavior_type prefill_worker(
    PrefillWorkerActor::stateful_pointer<PrefillWorker> self,
    ContextPtr node,
    std::uint32_t part,
    std::uint32_t rank) {
  self->state.seat = {.part = part, .node = std::move(node)};
  self->state.rank = rank;
  self->state.me = self;
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
      [self](const ReleaseAttempt& m) { self->state.release(m); },
      [self](PrefillStep& m) { self->state.step(m); },
      [self](const PrefillComputed& m) { self->state.computed(m); },
      [self](KvExported& m) { self->state.exported(m); },
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
