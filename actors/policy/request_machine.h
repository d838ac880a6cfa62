// The ledger's rules: what happens to one attempt of a request on each event, as one table of
// (state, event).
//
// Every state but the last four has a timer. A terminal state is entered once; what comes later is
// ignored, and every ignored pair says why. The owner (router) fences by attempt: an event of
// another attempt never gets here. A state exists only while some part works in it: loading KV and
// encoding images become states with the store and the vision part.
#pragma once

#include <cstdint>
#include <string_view>

#include "schemas/units.h"

namespace shoal {

enum class RequestState : std::uint8_t {
  kReceived,  // known, not placed
  kQueued,    // at the prefill balancer of its class, or at a group without KV yet
  kPrefilling,
  kQueuedDecode,  // first token sent; waits for a place in a decode batch
  kHandingOver,   // placed; the rank has not confirmed
  kDecoding,
  kFinished,
  kFailed,
  kCancelled,
  kExpired,
};
inline constexpr int kRequestStates = 10;
inline constexpr int kLiveRequestStates = 6;

enum class RequestEvent : std::uint8_t {
  kAccepted,  // the router checked it
  kPrefillStarted,
  kPrefillDone,  // first token sent, KV ready to be handed over
  kDecodePlaced,
  kDecodeLost,  // the rank did not get the KV, which is still on offer
  kDecodeJoined,
  kDecodeYielded,  // out of the batch between two steps, its KV on offer for another rank
  kAnswerDone,     // the last token was sent
  kRefused,        // a queue is full, or the request cannot be served
  kLost,           // the part that worked on it failed, and what it had with it
  kStopped,        // the stream is complete (stop string)
  kSuperseded,     // a later attempt came
  kClientLeft,
  kTimer,  // its due time passed
};
inline constexpr int kRequestEvents = 14;

// Times one attempt is handed over from where its KV is; after the last one its KV counts as lost.
inline constexpr int kMostHandovers = 4;

// What the router does after a step, as a set.
enum RequestCommand : std::uint8_t {
  kDoNothing = 0,
  kPlacePrefill = 1,
  kPlaceDecode = 2,
  // What decode starts from is held no longer: by balancer, group and worker of the prefill path,
  // or by the rank that yielded it.
  kReleaseSource = 4,
  kReleaseDecode = 8,  // balancer, group and worker of the decode path free what they hold of it
  kReport = 16,        // the attempt's terminal event goes to the stream
  kForgetDecode =
      32,  // it ended by itself: its balancer counts it no longer, whatever its group says
};

struct RequestStep {
  RequestState next = RequestState::kReceived;
  std::uint8_t commands = kDoNothing;
  std::string_view ignored;  // why nothing happens; empty when something does
};

struct RequestLimits {
  Nanos queued{0};
  Nanos prefilling{0};
  Nanos queued_decode{0};
  Nanos handing_over{0};
  Nanos decoding{0};
};

constexpr bool is_terminal(RequestState state) {
  return state >= RequestState::kFinished;
}

RequestStep next_step(RequestState state, RequestEvent event);

// When kTimer is due in a state entered at `entered`: its own limit, at the latest the request's
// deadline.
Instant state_due(RequestState state,
                  Instant entered,
                  Instant deadline,
                  const RequestLimits& limits);

std::string_view to_string(RequestState state);
std::string_view to_string(RequestEvent event);

}  // namespace shoal
