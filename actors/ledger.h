// An attempt in a router's ledger, and what log, timeline and metrics hear of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "actors/context.h"
#include "actors/interfaces.h"
#include "actors/policy/request_machine.h"
#include "actors/timeline.h"

namespace shoal {

struct LedgerEntry {
  SubmissionPtr submission;
  PlacementPtr placement;          // null until accepted
  std::optional<SiteRef> prefill;  // who works on it, or holds its KV for decode (or `yielded` it)
  std::optional<SiteRef> decode;
  std::optional<Handover> offered;  // waits to be fetched, so decode can be placed again
  bool yielded = false;             // `offered` comes from a decode rank
  int handovers = 0;                // from where its KV is
  RequestState state = RequestState::kReceived;
  Instant entered{};
  Instant due{};

  AttemptKey key() const { return {submission->request, submission->attempt}; }
};

// What an event brings besides its name.
struct LedgerCause {
  Error error{};
  bool retry = false;
  std::optional<Nanos> retry_after{};
  const Handover* handover = nullptr;
  bool broke = false;  // whoever had it could not go on
  std::int64_t tokens = 0;
  TimelineFields fields{};  // of the timeline, beside what is above
};

// An event's, with what its cause says.
TimelineFields timeline_fields(const LedgerEntry& entry, const LedgerCause& cause);

// Who told the router of the event, or the router itself.
NodeId place_of(const PartSeat& seat, const LedgerEntry& entry, RequestEvent event);

// In the timeline of the node whose client waits for it.
void note(const PartSeat& seat,
          const LedgerEntry& entry,
          NodeId node,
          std::string_view event,
          TimelineFields fields);

// Blocks that the attempts before took are gone, or others are in their place; nothing, if not.
void tell_basis_changed(const PartSeat& seat, const LedgerEntry& entry);

// The state that an event led to.
void log_state(const PartSeat& seat,
               const LedgerEntry& entry,
               RequestEvent event,
               const LedgerCause& cause);

void count_end(const PartSeat& seat, const LedgerEntry& entry, const LedgerCause& cause);

}  // namespace shoal
