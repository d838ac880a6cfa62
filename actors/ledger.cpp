// Log lines, timeline entries and counts of one attempt: structured fields, no text put together.
#include "actors/ledger.h"

#include <string>
#include <utility>

namespace shoal {

TimelineFields timeline_fields(const LedgerEntry& entry, const LedgerCause& cause) {
  TimelineFields fields = cause.fields;
  if (!cause.error.message.empty()) {
    fields.push_back({"code", std::string(to_string(cause.error.code))});
    fields.push_back({"reason", cause.error.message});
    fields.push_back({"retry", std::int64_t{cause.retry}});
    if (cause.retry_after) {
      fields.push_back({"retry_after_ns", cause.retry_after->count()});
    }
  } else if (is_terminal(entry.state)) {
    fields.push_back({"tokens", cause.tokens});
  }
  return fields;
}

void tell_basis_changed(const PartSeat& seat, const LedgerEntry& entry) {
  const std::optional<Basis>& before = entry.submission->basis;
  const Basis& basis = entry.placement->basis;
  if (before && *before != basis) {
    seat.node->log.event(LogLevel::kWarning,
                         "request.basis_changed",
                         {{"request", entry.submission->request},
                          {"attempt", entry.submission->attempt},
                          {"hit", basis.hit},
                          {"before", before->hit}});
    note(seat,
         entry,
         seat.wiring->self,
         "basis_changed",
         {{"hit", basis.hit}, {"before", before->hit}});
  }
}

void log_state(const PartSeat& seat,
               const LedgerEntry& entry,
               RequestEvent event,
               const LedgerCause& cause) {
  const Submission& submission = *entry.submission;
  const std::string name = "request." + std::string(to_string(entry.state));
  if (!cause.error.message.empty()) {
    seat.node->log.event(cause.error.code == Code::kInternal ? LogLevel::kError : LogLevel::kInfo,
                         name,
                         {{"request", submission.request},
                          {"attempt", submission.attempt},
                          {"event", to_string(event)},
                          {"code", to_string(cause.error.code)},
                          {"retry", cause.retry},
                          {"reason", cause.error.message}});
  } else if (is_terminal(entry.state)) {
    seat.node->log.event(LogLevel::kInfo,
                         name,
                         {{"request", submission.request},
                          {"attempt", submission.attempt},
                          {"event", to_string(event)},
                          {"tokens", cause.tokens}});
  } else {
    seat.node->log.event(LogLevel::kDebug,
                         name,
                         {{"request", submission.request},
                          {"attempt", submission.attempt},
                          {"event", to_string(event)}});
  }
}

NodeId place_of(const PartSeat& seat, const LedgerEntry& entry, RequestEvent event) {
  switch (event) {
    case RequestEvent::kPrefillStarted:
    case RequestEvent::kPrefillDone:
    case RequestEvent::kDecodeYielded:
      return entry.prefill ? entry.prefill->node : seat.wiring->self;
    case RequestEvent::kDecodeJoined:
    case RequestEvent::kDecodeLost:
      return entry.decode ? entry.decode->node : seat.wiring->self;
    case RequestEvent::kAnswerDone:
      return entry.decode    ? entry.decode->node
             : entry.prefill ? entry.prefill->node
                             : seat.wiring->self;
    default:
      return seat.wiring->self;
  }
}

void note(const PartSeat& seat,
          const LedgerEntry& entry,
          NodeId node,
          std::string_view event,
          TimelineFields fields) {
  const Submission& submission = *entry.submission;
  RequestNoted noted{submission.request,
                     submission.tenant,
                     submission.choice,
                     {{},
                      node,
                      submission.attempt,
                      std::string(event),
                      std::string(to_string(entry.state)),
                      std::move(fields)}};
  if (submission.gateway == seat.wiring->self) {
    seat.node->note(noted);
  } else {
    notify(seat.wiring->at(submission.gateway).gateway, std::move(noted));
  }
}

void count_end(const PartSeat& seat, const LedgerEntry& entry, const LedgerCause& cause) {
  NodeMetrics& metrics = seat.node->metrics;
  switch (entry.state) {
    case RequestState::kFinished:
      ++metrics.finished;
      break;
    case RequestState::kCancelled:
      ++metrics.cancelled;
      break;
    case RequestState::kExpired:
      ++metrics.expired;
      break;
    default:
      ++metrics.failed[static_cast<std::size_t>(cause.error.code)];
      break;
  }
}

}  // namespace shoal
