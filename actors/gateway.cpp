// Forwards submissions and tokens, keeps the list of answers that shards wait for, and has each of
// them tried again when its router is lost.
#include "actors/gateway.h"

#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/policy/rendezvous.h"

namespace shoal {
namespace {

struct Gateway {
  static inline const char* name = "gateway";

  struct Open {
    std::uint32_t shard = 0;
    AttemptId attempt;
    std::int64_t tokens = 0;        // delivered of the answer, by all its attempts
    std::optional<SiteRef> router;  // none: waits in `early`
  };

  PartSeat seat;
  std::map<RequestId, Open> open;
  OpenCount owed;
  std::map<RequestId, Submit> early;  // while no router can be reached; bounded like `open`

  ~Gateway();

  void submit(const Submit& message);
  void stop(const StopStream& message);
  void close(CloseRequest message);
  void deliver(TokenBatch& batch);
  void fail(const AttemptFailed& message);
  void rewire(const Rewire& message);

  // end(): the answer is over, or another attempt is the valid one.
  std::map<RequestId, Open>::iterator find(const TokenRun& run);
  std::optional<SiteRef> router_of(RequestId request) const;
  void to_router(RequestId request, const Submit& message);
  template <class Message>
  void follow(RequestId request, const Message& message);
  void note_full(const Submission& submission, const Error& error) const;
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
  if (!seat.node->serving) {
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
    note_full(submission, refusal.error);
    send_failure(submission.shard, std::move(refusal));
    return;
  }
  Open& entry = open[submission.request];
  entry.shard = submission.shard;
  entry.attempt = submission.attempt;
  entry.tokens = std::ssize(submission.forced);
  count();
  seat.node->log.event(LogLevel::kDebug,
                       "request.submitted",
                       {{"request", submission.request},
                        {"attempt", submission.attempt},
                        {"shard", submission.shard}});
  to_router(submission.request, message);
}

// No router hears of it, which would tell its story.
void Gateway::note_full(const Submission& submission, const Error& error) const {
  seat.node->note({submission.request,
                   submission.tenant,
                   submission.choice,
                   {{},
                    seat.wiring->self,
                    submission.attempt,
                    "refused",
                    "failed",
                    {{"why", std::string("node_full")},
                     {"open", std::ssize(open)},
                     {"code", std::string(to_string(error.code))},
                     {"reason", error.message}}}});
}

// By rendezvous: a request goes to the live router with the highest hash, so the loss of one moves
// only its own. One that drains gets it only where there is no other.
std::optional<SiteRef> Gateway::router_of(RequestId request) const {
  std::optional<SiteRef> best;
  std::pair<bool, std::uint64_t> highest;
  for (std::uint32_t n = 0; n < seat.wiring->nodes.size(); ++n) {
    const NodeParts& node = seat.wiring->nodes[n];
    const std::pair rank(!node.draining, rendezvous_weight(request.value, n));
    if (node.router && (!best || rank > highest)) {
      best = seat.wiring->site(NodeId{n});
      highest = rank;
    }
  }
  return best;
}

// A later attempt stays with the router that owns the earlier one, as long as that lives.
void Gateway::to_router(RequestId request, const Submit& message) {
  Open& entry = open.at(request);
  if (!entry.router || seat.wiring->lost(*entry.router)) {
    entry.router = router_of(request);
  }
  if (entry.router) {
    notify(seat.wiring->at(entry.router->node).router, message);
  } else {
    early.insert_or_assign(request, message);
  }
}

// What follows a submission goes where it went. For an answer that is over, a worker that does not
// know it yet may sit behind any router.
template <class Message>
void Gateway::follow(RequestId request, const Message& message) {
  const auto entry = open.find(request);
  if (entry != open.end() && entry->second.router) {
    notify(seat.wiring->at(entry->second.router->node).router, message);
    return;
  }
  for (const NodeParts& node : seat.wiring->nodes) {
    notify(node.router, message);
  }
}

void Gateway::stop(const StopStream& message) {
  follow(message.key.request, message);
  const auto entry = open.find(message.key.request);
  // A stop of an earlier attempt says nothing about the one that waits for a router.
  if (entry != open.end() && entry->second.attempt == message.key.attempt) {
    early.erase(message.key.request);
    forget(entry);
  }
}

void Gateway::close(CloseRequest message) {
  if (const auto entry = open.find(message.request); entry != open.end()) {
    message.tokens = entry->second.tokens;
  }
  follow(message.request, message);
  early.erase(message.request);
  if (const auto entry = open.find(message.request); entry != open.end()) {
    forget(entry);
  }
}

std::map<RequestId, Gateway::Open>::iterator Gateway::find(const TokenRun& run) {
  const auto entry = open.find(run.request);
  return entry != open.end() && entry->second.attempt == run.attempt ? entry : open.end();
}

void Gateway::deliver(TokenBatch& batch) {
  std::erase_if(batch.runs, [this](const TokenRun& run) {
    return run.tokens.empty() && find(run) == open.end();
  });
  for (const TokenRun& run : batch.runs) {
    const auto entry = find(run);
    if (entry == open.end()) {
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

// A router that was lost took its ledger along: every open stream of it tries again.
void Gateway::rewire(const Rewire& message) {
  seat.wiring = message.wiring;
  for (const auto& [request, submit] : std::exchange(early, {})) {
    to_router(request, submit);
  }
  const bool serving = seat.node->serving;
  for (auto entry = open.begin(); entry != open.end();) {
    const auto [request, stream] = *entry;
    if (serving && !(stream.router && seat.wiring->lost(*stream.router))) {
      ++entry;
      continue;
    }
    const Error error = serving ? Error{Code::kPeerLost, "the router was lost"}
                                : Error{Code::kUnavailable, "the node cannot serve: see /health"};
    entry = open.erase(entry);
    send_failure(stream.shard, {request, stream.attempt, error, serving, {}});
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
  owed.set(open.size());
  seat.node->metrics.gateway_open = static_cast<std::int64_t>(open.size());
}

GatewayActor::behavior_type gateway(GatewayActor::stateful_pointer<Gateway> self,
                                    ContextPtr node,
                                    std::uint32_t part) {
  self->state.owed.start(node);
  self->state.seat = {.part = part, .node = std::move(node)};
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(false); },
      [self](const Submit& m) { self->state.submit(m); },
      [self](const StopStream& m) { self->state.stop(m); },
      [self](const CloseRequest& m) { self->state.close(m); },
      [self](TokenBatch& m) { self->state.deliver(m); },
      [self](const AttemptFailed& m) { self->state.fail(m); },
      [self](const RequestNoted& m) { self->state.seat.node->note(m); },
  };
}

}  // namespace

GatewayActor spawn_gateway(caf::actor_system& system, ContextPtr node, std::uint32_t part) {
  return system.spawn(gateway, std::move(node), part);
}

}  // namespace shoal
