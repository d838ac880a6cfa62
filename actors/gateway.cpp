// Forwards submissions and tokens, and keeps the list of answers that shards wait for.
#include "actors/gateway.h"

#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shoal {
namespace {

struct Gateway {
  static inline const char* name = "gateway";

  struct Open {
    std::uint32_t shard = 0;
    AttemptId attempt;
    std::int64_t tokens = 0;  // delivered of the answer, by all its attempts
  };

  PartSeat seat;
  std::map<RequestId, Open> open;
  bool wired = false;
  std::vector<Submit> early;  // came before the first wiring; bounded like `open`

  ~Gateway();

  void submit(const Submit& message);
  void stop(const StopStream& message);
  void close(CloseRequest message);
  void deliver(TokenBatch& batch);
  void fail(const AttemptFailed& message);
  void rewire(const Rewire& message);

  void send_failure(std::uint32_t shard, StreamFailure failure) const;
  void forget(std::map<RequestId, Open>::iterator entry);
  void count();
};

// The node stops, or this part broke: nothing will ever answer these streams.
Gateway::~Gateway() {
  if (seat.node == nullptr) {
    return;
  }
  for (const auto& [request, entry] : open) {
    send_failure(entry.shard,
                 {request,
                  entry.attempt,
                  Error{Code::kUnavailable, "the node is stopping: send the request again later"},
                  false,
                  {}});
  }
  open.clear();
  count();
}

void Gateway::submit(const Submit& message) {
  const Submission& submission = *message.submission;
  const StreamFailure failure{submission.request, submission.attempt, {}, false, {}};
  if (wired && !seat.wiring->router) {
    StreamFailure refusal = failure;
    refusal.error = Error{Code::kUnavailable, "the node cannot serve: see /health"};
    send_failure(submission.shard, std::move(refusal));
    return;
  }
  if (open.size() >= seat.node->options.ceiling && !open.contains(submission.request)) {
    StreamFailure refusal = failure;
    refusal.error =
        Error{Code::kNoCapacity,
              "the node has " + std::to_string(open.size()) + " open answers: come back later"};
    refusal.retry_after = std::chrono::seconds(1);
    send_failure(submission.shard, std::move(refusal));
    return;
  }
  open[submission.request] = {
      submission.shard, submission.attempt, std::ssize(submission.forced)};
  count();
  seat.node->log.event(LogLevel::kDebug,
                       "request.submitted",
                       {{"request", submission.request},
                        {"attempt", submission.attempt},
                        {"shard", submission.shard}});
  if (wired) {
    notify(seat.wiring->router, message);
  } else {
    early.push_back(message);
  }
}

void Gateway::stop(const StopStream& message) {
  const auto entry = open.find(message.key.request);
  if (entry != open.end() && entry->second.attempt == message.key.attempt) {
    forget(entry);
  }
  notify(seat.wiring->router, message);
}

void Gateway::close(CloseRequest message) {
  if (const auto entry = open.find(message.request); entry != open.end()) {
    message.tokens = entry->second.tokens;
    forget(entry);
  }
  std::erase_if(early, [&message](const Submit& submit) {
    return submit.submission->request == message.request;
  });
  notify(seat.wiring->router, message);
}

void Gateway::deliver(TokenBatch& batch) {
  for (const TokenRun& run : batch.runs) {
    const auto entry = open.find(run.request);
    if (entry == open.end() || entry->second.attempt != run.attempt) {
      continue;
    }
    entry->second.tokens += std::ssize(run.tokens);
    if (run.finish != Finish::kNone) {
      forget(entry);
    }
  }
  ++seat.progress;
  if (ShardInbox* inbox = seat.node->shards.find(batch.shard)) {
    inbox->deliver(std::move(batch.runs));
  }
}

void Gateway::fail(const AttemptFailed& message) {
  const auto entry = open.find(message.failure.request);
  if (entry != open.end() && entry->second.attempt == message.failure.attempt) {
    forget(entry);
    send_failure(message.shard, message.failure);
  }
}

// A new router knows nothing of what the old one had accepted: every open stream tries again.
void Gateway::rewire(const Rewire& message) {
  const bool lost = seat.wiring->router && seat.wiring->router != message.wiring->router;
  seat.wiring = message.wiring;
  wired = true;
  for (const Submit& submit : std::exchange(early, {})) {
    notify(seat.wiring->router, submit);
  }
  if (!lost) {
    return;
  }
  for (const auto& [request, entry] : std::exchange(open, {})) {
    send_failure(entry.shard,
                 {request, entry.attempt, Error{Code::kPeerLost, "the router was lost"}, true, {}});
  }
  count();
}

void Gateway::send_failure(std::uint32_t shard, StreamFailure failure) const {
  if (ShardInbox* inbox = seat.node->shards.find(shard)) {
    inbox->fail(std::move(failure));
  }
}

void Gateway::forget(std::map<RequestId, Open>::iterator entry) {
  open.erase(entry);
  ++seat.progress;
  count();
}

void Gateway::count() {
  seat.node->open.set(open.size());
  seat.node->metrics.gateway_open = static_cast<std::int64_t>(open.size());
}

GatewayActor::behavior_type gateway(GatewayActor::stateful_pointer<Gateway> self,
                                    ContextPtr node,
                                    std::uint32_t part) {
  self->state.seat = {.part = part, .node = std::move(node)};
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(false); },
      [self](const Submit& m) { self->state.submit(m); },
      [self](const StopStream& m) { self->state.stop(m); },
      [self](const CloseRequest& m) { self->state.close(m); },
      [self](TokenBatch& m) { self->state.deliver(m); },
      [self](const AttemptFailed& m) { self->state.fail(m); },
  };
}

}  // namespace

GatewayActor spawn_gateway(caf::actor_system& system, ContextPtr node, std::uint32_t part) {
  return system.spawn(gateway, std::move(node), part);
}

}  // namespace shoal
