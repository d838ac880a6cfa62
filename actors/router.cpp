// Applies the request machine to every event, in the order a request goes through: submit, prefill,
// decode, end.
#include "actors/router.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/ledger.h"
#include "actors/placement.h"
#include "actors/policy/request_machine.h"

namespace shoal {
namespace {

struct Router {
  static inline const char* name = "router";

  PartSeat seat;
  PlacementLimits limits;
  std::map<RequestId, LedgerEntry> ledger;
  OpenCount open;  // while others take what is new

  void start(ContextPtr node, std::uint32_t part);
  void rewire(const Rewire& message);
  void submit(const Submit& message);
  void stop(const StopStream& message);
  void close(const CloseRequest& message);

  // What prefill costs, as the groups have learned it.
  CostModel price() const {
    return CostModel(seat.node->prices.get().value_or(seat.node->options.prefill_cost));
  }

  void kv_found(const KvFound& m);
  void kv_shortened(const KvShortened& m);

  // Of other nodes' kv clients, to this one's.
  template <class Message>
  void pass_on(const Message& m) const {
    if (seat.wiring->kv_client) {
      notify(seat.wiring->kv_client, m);
    }
  }

  void prefill_placed(const PrefillPlaced& m);

  void prefill_started(const PrefillStarted& m) {
    on(m.key, RequestEvent::kPrefillStarted, {.fields = {{"rank", m.rank}}});
  }

  void prefill_done(const PrefillDone& m);

  void decode_placed(const DecodePlaced& m);

  void decode_joined(const DecodeJoined& m);

  void decode_moving(const DecodeMoving& m);

  void decode_yielded(const DecodeYielded& m);

  void answer_done(const AnswerDone& m);
  void lost(const AttemptLost& m);
  void refused(const AttemptRefused& m);
  void look_at_deadlines();

  void place(LedgerEntry& entry, const KvFound& found);
  void tell_tail_refused(const LedgerEntry& entry, Code code) const;
  LedgerEntry* find(const AttemptKey& key);
  bool site_lost(const LedgerEntry& entry) const;
  bool can_hand_over_again(const LedgerEntry& entry) const;
  void lose(const LedgerEntry& entry, Error error, bool decode_only);
  void lose_with_site(const LedgerEntry& entry);
  void expire(const LedgerEntry& entry);
  bool on(const AttemptKey& key, RequestEvent event, const LedgerCause& cause);
  void apply(LedgerEntry& entry, RequestEvent event, const LedgerCause& cause);
  void tell_end(const LedgerEntry& entry, std::int64_t tokens) const;
  void execute(LedgerEntry& entry, std::uint8_t commands, const LedgerCause& cause);
  void release_source(const LedgerEntry& entry, bool broke);
  void release_handover(const Handover& handover) const;
  void report(const LedgerEntry& entry, const LedgerCause& cause);
  void release_everywhere(const AttemptKey& key);
  void forget_if_over(RequestId request);
  bool has_other_router() const;
  void count_open();
};

void Router::start(ContextPtr node, std::uint32_t part) {
  seat = {.part = part, .node = std::move(node)};
  limits = placement_limits(*seat.node);
  open.start(seat.node);
}

void Router::submit(const Submit& message) {
  const SubmissionPtr& submission = message.submission;
  if (const auto known = ledger.find(submission->request); known != ledger.end()) {
    if (known->second.submission->attempt >= submission->attempt) {
      return;  // a repeated message
    }
    on(known->second.key(), RequestEvent::kSuperseded, {});
  }
  ++seat.node->metrics.attempts;
  const Instant now = seat.node->now();
  LedgerEntry& entry = ledger[submission->request];
  entry = LedgerEntry{};
  entry.submission = submission;
  entry.entered = now;
  entry.due = state_due(entry.state, now, submission->deadline, seat.node->options.request_limits);
  count_open();
  seat.node->log.event(LogLevel::kDebug,
                       "request.received",
                       {{"request", submission->request}, {"attempt", submission->attempt}});
  note(seat, entry, seat.wiring->self, "received", timeline_fields(*submission, now));
  if (const auto checked = check_submission(*submission, limits); !checked) {
    on(entry.key(),
       RequestEvent::kRefused,
       {.error = checked.error(),
        .fields = size_fields(*submission, limits, checked.error().code)});
  } else if (seat.wiring->kv_client) {
    notify(seat.wiring->kv_client, LookUpKv{submission});
  } else {
    place(entry, find_nothing(*submission, limits.reach));
  }
}

void Router::kv_found(const KvFound& message) {
  LedgerEntry* entry = find(message.key);
  if (entry != nullptr && entry->placement == nullptr) {
    place(*entry, message);
  }
}

// The node that prefills it could not load all of its hit, and goes on behind what it could. Its
// store is not this one's: what it could not read may still seem to be there.
void Router::kv_shortened(const KvShortened& message) {
  LedgerEntry* entry = find(message.found.key);
  if (entry == nullptr || entry->state != RequestState::kQueued) {
    return;
  }
  if (seat.wiring->kv_client) {
    notify(seat.wiring->kv_client,
           KvLoadFailed{entry->placement, message.sound, message.cause.code});
  }
  const Position before = entry->placement->cached;
  Placement placement = *entry->placement;
  start_behind(placement, message.found, price());
  entry->placement = std::make_shared<const Placement>(std::move(placement));
  note(seat,
       *entry,
       entry->prefill ? entry->prefill->node : seat.wiring->self,
       "hit_shortened",
       {{"cached", entry->placement->cached},
        {"before", before},
        {"hit", entry->placement->basis.hit},
        {"kv_reason", std::string("load_failed")},
        {"code", std::string(to_string(message.cause.code))},
        {"reason", message.cause.message}});
  tell_basis_changed(seat, *entry);
}

void Router::place(LedgerEntry& entry, const KvFound& found) {
  Placement placement = make_placement(entry.submission, limits, price(), found);
  placement.router = seat.wiring->self;
  seat.node->metrics.demand_ns[kScaledPrefill] += placement.work.count();
  entry.placement = std::make_shared<const Placement>(std::move(placement));
  tell_basis_changed(seat, entry);
  on(entry.key(),
     RequestEvent::kAccepted,
     {.fields = timeline_fields(*entry.placement, found.why, found.stored)});
}

// Work that was under way on a node that is lost is tried again; answers that no gateway waits for
// are cancelled.
void Router::rewire(const Rewire& message) {
  const WiringPtr before = std::exchange(seat.wiring, message.wiring);
  std::vector<AttemptKey> lost;
  std::vector<AttemptKey> orphaned;
  for (const auto& [request, entry] : ledger) {
    const NodeId gateway = entry.submission->gateway;
    if (seat.wiring->lost(before->site(gateway)) && gateway != seat.wiring->self) {
      orphaned.push_back(entry.key());
    } else if (site_lost(entry)) {
      lost.push_back(entry.key());
    }
  }
  for (const AttemptKey& key : orphaned) {
    on(key, RequestEvent::kClientLeft, {});
  }
  for (const AttemptKey& key : lost) {
    lose_with_site(ledger.at(key.request));
  }
  count_open();
}

bool Router::site_lost(const LedgerEntry& entry) const {
  return (entry.prefill && seat.wiring->lost(*entry.prefill)) ||
         (entry.decode && seat.wiring->lost(*entry.decode));
}

// The KV is still on offer where it was computed: another rank can have it.
bool Router::can_hand_over_again(const LedgerEntry& entry) const {
  return entry.state == RequestState::kHandingOver && entry.offered &&
         entry.handovers < kMostHandovers && !(entry.prefill && seat.wiring->lost(*entry.prefill));
}

// `decode_only`: what prefill did for it may be left.
void Router::lose(const LedgerEntry& entry, Error error, bool decode_only) {
  const bool again = decode_only && can_hand_over_again(entry);
  on(entry.key(),
     again ? RequestEvent::kDecodeLost : RequestEvent::kLost,
     {.error = std::move(error), .retry = true, .broke = true});
}

void Router::lose_with_site(const LedgerEntry& entry) {
  lose(entry, Error{Code::kPeerLost, "the node that worked on it was lost"}, true);
}

// A balancer may know an older or a newer session than this part does.
void Router::prefill_placed(const PrefillPlaced& message) {
  if (LedgerEntry* entry = find(message.key)) {
    entry->prefill = message.site;
    note(seat,
         *entry,
         seat.wiring->self,
         "prefill_placed",
         {{"to_node", message.site.node.value}, {"first_token_ns", message.first_token.count()}});
    if (site_lost(*entry)) {
      lose_with_site(*entry);
    }
  }
}

void Router::decode_placed(const DecodePlaced& message) {
  if (LedgerEntry* entry = find(message.key)) {
    entry->decode = message.site;
    const TimelineFields fields = {{"to_node", message.site.node.value},
                                   {"handover", entry->handovers},
                                   {"step_ns", message.step.count()}};
    if (entry->state == RequestState::kHandingOver) {
      // The group before had no room.
      note(seat, *entry, seat.wiring->self, "decode_placed", fields);
    } else {
      on(message.key, RequestEvent::kDecodePlaced, {.fields = fields});
    }
    if (site_lost(*entry)) {
      lose_with_site(*entry);
    }
  }
}

// A node that it was taken from again says nothing about it.
void Router::decode_joined(const DecodeJoined& message) {
  const LedgerEntry* entry = find(message.key);
  if (entry != nullptr && entry->decode && entry->decode->node == message.node) {
    on(message.key, RequestEvent::kDecodeJoined, {.fields = {{"rank", message.rank}}});
  }
}

void Router::decode_moving(const DecodeMoving& message) {
  if (const LedgerEntry* entry = find(message.key)) {
    note(seat,
         *entry,
         seat.wiring->self,
         "decode_moving",
         {{"to_node", message.to.value},
          {"gain_ns", message.gain.count()},
          {"cost_ns", message.cost.count()}});
  }
}

// From now on its KV is where it was decoded: handed over from there, as from prefill before.
void Router::decode_yielded(const DecodeYielded& message) {
  Handover handover = message.handover;
  LedgerEntry* entry = find(handover.key());
  if (entry == nullptr || entry->state != RequestState::kDecoding || !entry->decode ||
      entry->decode->node != handover.node) {
    release_handover(handover);
    return;
  }
  handover.placement = entry->placement;
  entry->prefill = std::exchange(entry->decode, std::nullopt);
  entry->yielded = true;
  entry->handovers = 0;
  on(handover.key(),
     RequestEvent::kDecodeYielded,
     {.handover = &handover, .fields = {{"rank", handover.rank}, {"position", handover.position}}});
}

LedgerEntry* Router::find(const AttemptKey& key) {
  const auto entry = ledger.find(key.request);
  const bool known = entry != ledger.end() && entry->second.submission->attempt == key.attempt;
  return known ? &entry->second : nullptr;
}

// From another process a hand-over names its placement only.
void Router::prefill_done(const PrefillDone& message) {
  Handover handover = message.handover;
  if (const LedgerEntry* entry = find(handover.key())) {
    handover.placement = entry->placement;
    const bool stays = handover.buffer == BufferKey{};
    on(handover.key(),
       RequestEvent::kPrefillDone,
       {.handover = &handover,
        .fields = {{"rank", handover.rank},
                   {"position", handover.position},
                   {"kv", std::string(stays ? "stays on the device" : "on offer")}}});
  }
}

void Router::answer_done(const AnswerDone& message) {
  on(message.key, RequestEvent::kAnswerDone, {.tokens = message.tokens});
}

void Router::lost(const AttemptLost& message) {
  const LedgerEntry* entry = find(message.key);
  const bool from_elsewhere =
      entry == nullptr ||
      (message.decode && !(entry->decode && entry->decode->node == *message.decode));
  if (!from_elsewhere) {
    tell_tail_refused(*entry, message.error.code);
    lose(*entry, message.error, message.decode.has_value());
  }
}

// What a device refused to go on from is no better the next time.
void Router::tell_tail_refused(const LedgerEntry& entry, Code code) const {
  if (entry.placement && entry.placement->tail && code == Code::kCorrupt) {
    notify(seat.wiring->kv_client,
           KvLoadFailed{entry.placement, entry.placement->span.reuse.hit, code});
  }
}

// Before the first token a refusal is final for the client; later the stream tries again.
void Router::refused(const AttemptRefused& message) {
  const auto entry = ledger.find(message.key.request);
  const bool started = entry != ledger.end() && entry->second.state != RequestState::kQueued;
  on(message.key,
     RequestEvent::kRefused,
     {.error = message.error,
      .retry = started,
      .retry_after = message.retry_after,
      .fields = message.why});
}

// A stop for an attempt that is not in the ledger is for a zombie: some worker still sends its
// tokens.
void Router::stop(const StopStream& message) {
  const auto entry = ledger.find(message.key.request);
  const std::int64_t tokens =
      entry == ledger.end() ? 0 : message.end - std::ssize(*entry->second.submission->prompt);
  if (!on(message.key, RequestEvent::kStopped, {.tokens = tokens})) {
    release_everywhere(message.key);
  }
}

void Router::close(const CloseRequest& message) {
  if (const auto entry = ledger.find(message.request); entry != ledger.end()) {
    on(entry->second.key(), RequestEvent::kClientLeft, {.tokens = message.tokens});
  }
}

void Router::look_at_deadlines() {
  const Instant now = seat.node->now();
  std::vector<AttemptKey> due;
  for (const auto& [request, entry] : ledger) {
    if (now >= entry.due) {
      due.push_back(entry.key());
    }
  }
  for (const AttemptKey& key : due) {
    expire(ledger.at(key.request));
  }
}

void Router::expire(const LedgerEntry& entry) {
  const std::string state(to_string(entry.state));
  const bool deadline = seat.node->now() >= entry.submission->deadline;
  const Error error =
      deadline ? Error{Code::kDeadline, "the request's deadline passed while it was " + state}
               : Error{Code::kUnavailable, "the request was " + state + " for too long"};
  on(entry.key(), RequestEvent::kTimer, {.error = error, .retry = !deadline, .broke = !deadline});
}

// False: the ledger has no such attempt. Work that arrives for it is dropped with the message.
bool Router::on(const AttemptKey& key, RequestEvent event, const LedgerCause& cause) {
  LedgerEntry* entry = find(key);
  if (entry == nullptr) {
    return false;
  }
  apply(*entry, event, cause);
  forget_if_over(key.request);
  return true;
}

void Router::apply(LedgerEntry& entry, RequestEvent event, const LedgerCause& cause) {
  const NodeId node = place_of(seat, entry, event);
  const RequestStep step = next_step(entry.state, event);
  if (!step.ignored.empty()) {
    seat.node->log.event(LogLevel::kDebug,
                         "request.ignored",
                         {{"request", entry.submission->request},
                          {"event", to_string(event)},
                          {"state", to_string(entry.state)},
                          {"reason", step.ignored}});
    return;
  }
  execute(entry, step.commands, cause);
  entry.state = step.next;
  if (entry.state == RequestState::kDecoding) {
    entry.prefill.reset();  // it holds nothing of this attempt any more
    entry.offered.reset();
    entry.yielded = false;
  }
  entry.entered = seat.node->now();
  entry.due = state_due(
      step.next, entry.entered, entry.submission->deadline, seat.node->options.request_limits);
  ++seat.progress;
  log_state(seat, entry, event, cause);
  note(seat, entry, node, to_string(event), timeline_fields(entry, cause));
  if (is_terminal(entry.state)) {
    count_end(seat, entry, cause);
  }
  if (event == RequestEvent::kAnswerDone) {
    tell_end(entry, cause.tokens);
  }
}

// An empty run where the answer ends: tokens came to the gateway on another link, which may have
// been lost with the last of them. A stream that has them all is over and hears nothing of it.
void Router::tell_end(const LedgerEntry& entry, std::int64_t tokens) const {
  const Submission& submission = *entry.submission;
  TokenRun end;
  end.request = submission.request;
  end.attempt = submission.attempt;
  end.first_position = static_cast<Position>(submission.prompt->size()) + tokens;
  notify(seat.wiring->at(submission.gateway).gateway,
         TokenBatch{submission.shard, {std::move(end)}});
}

void Router::execute(LedgerEntry& entry, std::uint8_t commands, const LedgerCause& cause) {
  const NodeParts& parts = seat.wiring->here();
  if ((commands & kPlacePrefill) != 0) {
    notify(parts.prefill_balancers[static_cast<std::size_t>(entry.placement->length_class)],
           PlacePrefill{entry.placement});
  }
  if ((commands & kReleaseSource) != 0) {
    release_source(entry, cause.broke);
  }
  if ((commands & kReleaseDecode) != 0) {
    entry.decode.reset();
    notify(parts.decode_balancer,
           ReleaseAttempt{entry.key(), cause.broke && entry.state > RequestState::kQueuedDecode});
  }
  if ((commands & kForgetDecode) != 0) {
    notify(parts.decode_balancer, DecodeLeft{{entry.key()}});
  }
  if ((commands & kPlaceDecode) != 0) {
    ++entry.handovers;
    if (cause.handover != nullptr && cause.handover->buffer != BufferKey{}) {
      entry.offered = *cause.handover;
    }
    notify(parts.decode_balancer,
           PlaceDecode{cause.handover != nullptr ? *cause.handover : *entry.offered});
  }
  if ((commands & kReport) != 0) {
    report(entry, cause);
  }
}

void Router::release_source(const LedgerEntry& entry, bool broke) {
  if (entry.yielded) {
    release_handover(*entry.offered);
    return;
  }
  notify(seat.wiring->here()
             .prefill_balancers[static_cast<std::size_t>(entry.placement->length_class)],
         ReleaseAttempt{entry.key(), broke && entry.state <= RequestState::kQueuedDecode});
}

void Router::release_handover(const Handover& handover) const {
  notify(seat.wiring->at(handover.node).decode_group,
         ReleaseHandover{handover.key(), handover.rank, handover.buffer});
}

void Router::report(const LedgerEntry& entry, const LedgerCause& cause) {
  const Submission& submission = *entry.submission;
  notify(
      seat.wiring->at(submission.gateway).gateway,
      AttemptFailed{
          submission.shard,
          {submission.request, submission.attempt, cause.error, cause.retry, cause.retry_after}});
}

void Router::release_everywhere(const AttemptKey& key) {
  for (const PrefillBalancerActor& balancer : seat.wiring->here().prefill_balancers) {
    notify(balancer, ReleaseAttempt{key});
  }
  notify(seat.wiring->here().decode_balancer, ReleaseAttempt{key});
}

void Router::forget_if_over(RequestId request) {
  const auto entry = ledger.find(request);
  if (is_terminal(entry->second.state)) {
    if (seat.wiring->kv_client) {
      notify(seat.wiring->kv_client, KvClosed{entry->second.key()});
    }
    ledger.erase(entry);
    count_open();
  }
}

bool Router::has_other_router() const {
  const std::vector<NodeParts>& nodes = seat.wiring->nodes;
  return std::any_of(nodes.begin(), nodes.end(), [this](const NodeParts& node) {
    return node.router && !node.draining && &node != &seat.wiring->here();
  });
}

// The only router would never be through: its gateways go on to send to it. They try again what its
// end cuts off when it is back.
void Router::count_open() {
  seat.node->metrics.ledger_open = static_cast<std::int64_t>(ledger.size());
  open.set(has_other_router() ? ledger.size() : 0);
}

RouterActor::behavior_type router(RouterActor::stateful_pointer<Router> self,
                                  ContextPtr node,
                                  std::uint32_t part) {
  self->state.start(std::move(node), part);
  send_after(self, self->state.seat.node->options.tick, Tick{});
  return {
      [self](const Rewire& m) { self->state.rewire(m); },
      [self](const Ping&) { self->state.seat.answer_ping(false); },
      [self](const Tick&) {
        self->state.look_at_deadlines();
        send_after(self, self->state.seat.node->options.tick, Tick{});
      },
      [self](const Submit& m) { self->state.submit(m); },
      [self](const StopStream& m) { self->state.stop(m); },
      [self](const CloseRequest& m) { self->state.close(m); },
      [self](const KvFound& m) { self->state.kv_found(m); },
      [self](const KvShortened& m) { self->state.kv_shortened(m); },
      [self](const TailKept& m) { self->state.pass_on(m); },
      [self](const KvNews& m) { self->state.pass_on(m); },
      [self](const PrefillPlaced& m) { self->state.prefill_placed(m); },
      [self](const PrefillStarted& m) { self->state.prefill_started(m); },
      [self](const PrefillDone& m) { self->state.prefill_done(m); },
      [self](const DecodePlaced& m) { self->state.decode_placed(m); },
      [self](const DecodeJoined& m) { self->state.decode_joined(m); },
      [self](const DecodeMoving& m) { self->state.decode_moving(m); },
      [self](const DecodeYielded& m) { self->state.decode_yielded(m); },
      [self](const AnswerDone& m) { self->state.answer_done(m); },
      [self](const AttemptLost& m) { self->state.lost(m); },
      [self](const AttemptRefused& m) { self->state.refused(m); },
  };
}

}  // namespace

RouterActor spawn_router(caf::actor_system& system, ContextPtr node, std::uint32_t part) {
  return system.spawn(router, std::move(node), part);
}

}  // namespace shoal
