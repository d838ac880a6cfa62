// The ledger's table, walked whole, and its promises over random event sequences.
#include "actors/policy/request_machine.h"

#include <doctest/doctest.h>
#include <random>

using namespace shoal;

namespace {

RequestState state(int s) {
  return static_cast<RequestState>(s);
}

RequestEvent event(int e) {
  return static_cast<RequestEvent>(e);
}

bool ends_it(RequestEvent e) {
  return e == RequestEvent::kLost || e == RequestEvent::kStopped ||
         e == RequestEvent::kSuperseded || e == RequestEvent::kClientLeft ||
         e == RequestEvent::kTimer;
}

}  // namespace

TEST_CASE("every pair of state and event either does something or says why not") {
  for (int s = 0; s < kRequestStates; ++s) {
    for (int e = 0; e < kRequestEvents; ++e) {
      const RequestStep step = next_step(state(s), event(e));
      CAPTURE(to_string(state(s)));
      CAPTURE(to_string(event(e)));
      if (step.ignored.empty()) {
        CHECK(step.next != state(s));
      } else {
        CHECK(step.next == state(s));
        CHECK(step.commands == kDoNothing);
      }
    }
  }
}

TEST_CASE("a request goes forward through its states") {
  RequestState now = RequestState::kReceived;
  const auto on = [&now](RequestEvent e) {
    const RequestStep step = next_step(now, e);
    now = step.next;
    return step.commands;
  };
  CHECK(on(RequestEvent::kAccepted) == kPlacePrefill);
  CHECK(on(RequestEvent::kPrefillStarted) == kDoNothing);
  CHECK(on(RequestEvent::kPrefillDone) == kPlaceDecode);
  CHECK(on(RequestEvent::kDecodePlaced) == kDoNothing);
  CHECK(on(RequestEvent::kDecodeJoined) == kReleaseSource);
  CHECK(now == RequestState::kDecoding);
  CHECK(on(RequestEvent::kAnswerDone) == kForgetDecode);
  CHECK(now == RequestState::kFinished);
}

TEST_CASE("a hand-over that failed is placed again, after its first place is told to let go") {
  const RequestStep step = next_step(RequestState::kHandingOver, RequestEvent::kDecodeLost);
  CHECK(step.next == RequestState::kQueuedDecode);
  CHECK(step.commands == (kReleaseDecode | kPlaceDecode));
  for (int s = 0; s < kRequestStates; ++s) {
    if (state(s) != RequestState::kHandingOver) {
      CHECK_FALSE(next_step(state(s), RequestEvent::kDecodeLost).ignored.empty());
    }
  }
}

TEST_CASE("an answer that its rank yielded is handed over as one that was prefilled") {
  const RequestStep step = next_step(RequestState::kDecoding, RequestEvent::kDecodeYielded);
  CHECK(step.next == RequestState::kQueuedDecode);
  CHECK(step.commands == kPlaceDecode);
  for (int s = 0; s < kRequestStates; ++s) {
    if (state(s) != RequestState::kDecoding) {
      CHECK_FALSE(next_step(state(s), RequestEvent::kDecodeYielded).ignored.empty());
    }
  }
}

TEST_CASE("loss, stop, a later attempt, a cancel and the timer end every live state") {
  for (int s = 0; s < kLiveRequestStates; ++s) {
    for (int e = 0; e < kRequestEvents; ++e) {
      if (ends_it(event(e))) {
        CHECK(is_terminal(next_step(state(s), event(e)).next));
      }
    }
  }
}

TEST_CASE("nobody is told about an end it chose, everybody about one it did not") {
  for (int s = 0; s < kLiveRequestStates; ++s) {
    CHECK((next_step(state(s), RequestEvent::kClientLeft).commands & kReport) == 0);
    CHECK((next_step(state(s), RequestEvent::kStopped).commands & kReport) == 0);
    CHECK((next_step(state(s), RequestEvent::kSuperseded).commands & kReport) == 0);
    CHECK((next_step(state(s), RequestEvent::kLost).commands & kReport) != 0);
    CHECK((next_step(state(s), RequestEvent::kTimer).commands & kReport) != 0);
  }
}

TEST_CASE("an end from outside frees the path the attempt is on") {
  for (const RequestEvent e : {RequestEvent::kLost,
                               RequestEvent::kStopped,
                               RequestEvent::kSuperseded,
                               RequestEvent::kClientLeft,
                               RequestEvent::kTimer}) {
    for (const RequestState s : {RequestState::kQueued, RequestState::kPrefilling}) {
      CHECK((next_step(s, e).commands & (kReleaseSource | kReleaseDecode)) == kReleaseSource);
    }
    // Until decode has joined, the prefill side holds the KV.
    for (const RequestState s : {RequestState::kQueuedDecode, RequestState::kHandingOver}) {
      CHECK((next_step(s, e).commands & (kReleaseSource | kReleaseDecode)) ==
            (kReleaseSource | kReleaseDecode));
    }
    CHECK((next_step(RequestState::kDecoding, e).commands & (kReleaseSource | kReleaseDecode)) ==
          kReleaseDecode);
    CHECK((next_step(RequestState::kReceived, e).commands & (kReleaseSource | kReleaseDecode)) ==
          0);
  }
}

TEST_CASE("an attempt is reported at most once and never after its end, in any order of events") {
  std::mt19937_64 random(3);
  MESSAGE("seed 3");
  for (int round = 0; round < 2'000; ++round) {
    RequestState now = RequestState::kReceived;
    int reports = 0;
    int ends = 0;
    for (int i = 0; i < 40; ++i) {
      const RequestStep step = next_step(now, event(static_cast<int>(random() % kRequestEvents)));
      REQUIRE((!is_terminal(now) || step.commands == kDoNothing));
      reports += (step.commands & kReport) != 0 ? 1 : 0;
      ends += !is_terminal(now) && is_terminal(step.next) ? 1 : 0;
      const bool back = static_cast<int>(step.next) < static_cast<int>(now);
      REQUIRE((!back || (step.commands & kPlaceDecode) != 0));  // only to be handed over again
      now = step.next;
    }
    REQUIRE(reports <= 1);
    REQUIRE(ends <= 1);
  }
}

TEST_CASE("every live state has a timer, at the latest the deadline; ended ones have none") {
  const RequestLimits limits{Nanos{10}, Nanos{20}, Nanos{30}, Nanos{40}, Nanos{50}};
  const Instant entered{Nanos{1'000}};
  const Nanos expected[] = {Nanos{10}, Nanos{10}, Nanos{20}, Nanos{30}, Nanos{40}, Nanos{50}};
  for (int s = 0; s < kLiveRequestStates; ++s) {
    CHECK(state_due(state(s), entered, Instant::max(), limits) == entered + expected[s]);
    CHECK(state_due(state(s), entered, entered + Nanos{5}, limits) == entered + Nanos{5});
  }
  for (int s = kLiveRequestStates; s < kRequestStates; ++s) {
    CHECK(state_due(state(s), entered, entered, limits) == Instant::max());
  }
}
