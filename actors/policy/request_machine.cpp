// The table: one row per state, one column per event, in the order a request goes through them.
#include "actors/policy/request_machine.h"

#include <algorithm>
#include <array>

namespace shoal {
namespace {

using enum RequestState;

constexpr RequestStep to(RequestState next, int commands = kDoNothing) {
  return {next, static_cast<std::uint8_t>(commands), {}};
}

constexpr RequestStep ignore(std::string_view reason) {
  return {kReceived, kDoNothing, reason};
}

constexpr std::string_view kEarly = "the request is not placed yet";
constexpr std::string_view kSeen = "a later event of this attempt came already";
constexpr std::string_view kAhead = "nothing was placed that could say so";
constexpr std::string_view kOver = "the attempt is over";
constexpr std::string_view kUnplaced = "no rank has it";
constexpr std::string_view kJoined = "the rank had it already, so its loss is the attempt's";
constexpr std::string_view kTaken = "only a queue refuses, and it is in none";

// Until decode has joined, the KV is where it was before.
constexpr int kReleaseBoth = kReleaseSource | kReleaseDecode;

using Row = std::array<RequestStep, kRequestEvents>;

// clang-format off
constexpr std::array<Row, kLiveRequestStates> kTable = {{
    // accepted, prefill started, prefill done,
    // decode placed, decode lost, decode joined, decode yielded, answer done,
    // refused, lost, stopped,
    // superseded, client left, timer
    // -- Received
    Row{to(kQueued, kPlacePrefill), ignore(kEarly), ignore(kEarly),
        ignore(kEarly), ignore(kEarly), ignore(kEarly), ignore(kEarly), ignore(kEarly),
        to(kFailed, kReport), to(kFailed, kReport), to(kFinished),
        to(kCancelled), to(kCancelled), to(kExpired, kReport)},
    // -- Queued
    Row{ignore(kSeen), to(kPrefilling), to(kQueuedDecode, kPlaceDecode),
        ignore(kAhead), ignore(kAhead), ignore(kAhead), ignore(kAhead), to(kFinished, kReleaseSource),
        to(kFailed, kReport), to(kFailed, kReport | kReleaseSource), to(kFinished, kReleaseSource),
        to(kCancelled, kReleaseSource), to(kCancelled, kReleaseSource), to(kExpired, kReport | kReleaseSource)},
    // -- Prefilling
    Row{ignore(kSeen), ignore(kSeen), to(kQueuedDecode, kPlaceDecode),
        ignore(kAhead), ignore(kAhead), ignore(kAhead), ignore(kAhead), to(kFinished, kReleaseSource),
        ignore(kTaken), to(kFailed, kReport | kReleaseSource), to(kFinished, kReleaseSource),
        to(kCancelled, kReleaseSource), to(kCancelled, kReleaseSource), to(kExpired, kReport | kReleaseSource)},
    // -- Queued for decode
    Row{ignore(kSeen), ignore(kSeen), ignore(kSeen),
        to(kHandingOver), ignore(kUnplaced), to(kDecoding, kReleaseSource), ignore(kUnplaced), to(kFinished, kReleaseSource | kForgetDecode),
        to(kFailed, kReport | kReleaseSource), to(kFailed, kReport | kReleaseBoth), to(kFinished, kReleaseBoth),
        to(kCancelled, kReleaseBoth), to(kCancelled, kReleaseBoth), to(kExpired, kReport | kReleaseBoth)},
    // -- Handing over
    Row{ignore(kSeen), ignore(kSeen), ignore(kSeen),
        ignore(kSeen), to(kQueuedDecode, kReleaseDecode | kPlaceDecode), to(kDecoding, kReleaseSource), ignore(kAhead), to(kFinished, kReleaseSource | kForgetDecode),
        ignore(kTaken), to(kFailed, kReport | kReleaseBoth), to(kFinished, kReleaseBoth),
        to(kCancelled, kReleaseBoth), to(kCancelled, kReleaseBoth), to(kExpired, kReport | kReleaseBoth)},
    // -- Decoding
    Row{ignore(kSeen), ignore(kSeen), ignore(kSeen),
        ignore(kSeen), ignore(kJoined), ignore(kSeen), to(kQueuedDecode, kPlaceDecode), to(kFinished, kForgetDecode),
        ignore(kTaken), to(kFailed, kReport | kReleaseDecode), to(kFinished, kReleaseDecode),
        to(kCancelled, kReleaseDecode), to(kCancelled, kReleaseDecode), to(kExpired, kReport | kReleaseDecode)},
}};
// clang-format on

}  // namespace

RequestStep next_step(RequestState state, RequestEvent event) {
  RequestStep step = is_terminal(state)
                         ? ignore(kOver)
                         : kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
  if (!step.ignored.empty()) {
    step.next = state;
  }
  return step;
}

Instant state_due(RequestState state,
                  Instant entered,
                  Instant deadline,
                  const RequestLimits& limits) {
  Nanos limit{0};
  switch (state) {
    case kReceived:
    case kQueued:
      limit = limits.queued;
      break;
    case kPrefilling:
      limit = limits.prefilling;
      break;
    case kQueuedDecode:
      limit = limits.queued_decode;
      break;
    case kHandingOver:
      limit = limits.handing_over;
      break;
    case kDecoding:
      limit = limits.decoding;
      break;
    case kFinished:
    case kFailed:
    case kCancelled:
    case kExpired:
      return Instant::max();
  }
  return std::min(entered + limit, deadline);
}

std::string_view to_string(RequestState state) {
  constexpr std::array<std::string_view, kRequestStates> kNames = {"received",
                                                                   "queued",
                                                                   "prefilling",
                                                                   "queued_decode",
                                                                   "handing_over",
                                                                   "decoding",
                                                                   "finished",
                                                                   "failed",
                                                                   "cancelled",
                                                                   "expired"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(RequestEvent event) {
  constexpr std::array<std::string_view, kRequestEvents> kNames = {"accepted",
                                                                   "prefill_started",
                                                                   "prefill_done",
                                                                   "decode_placed",
                                                                   "decode_lost",
                                                                   "decode_joined",
                                                                   "decode_yielded",
                                                                   "answer_done",
                                                                   "refused",
                                                                   "lost",
                                                                   "stopped",
                                                                   "superseded",
                                                                   "client_left",
                                                                   "timer"};
  return kNames[static_cast<std::size_t>(event)];
}

}  // namespace shoal
