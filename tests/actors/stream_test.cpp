// The stream by hand, then against a worker and a network that lose, double and reorder.
#include "actors/stream.h"

#include <deque>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace shoal;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Instant kStart{seconds(1'000)};
constexpr Position kPrompt = 10;

Submission first_submission() {
  Submission submission;
  submission.request = RequestId{1};
  submission.prompt = std::make_shared<const std::vector<TokenId>>(kPrompt, 5);
  submission.deadline = kStart + seconds(3'600);
  return submission;
}

Stream fresh() {
  return Stream(first_submission(), {}, kStart);
}

TokenRun run(std::uint32_t attempt, Position first, std::vector<TokenId> tokens) {
  TokenRun made;
  made.request = RequestId{1};
  made.attempt = AttemptId{attempt};
  made.first_position = first;
  made.tokens = std::move(tokens);
  return made;
}

StreamFailure failure(std::uint32_t attempt, bool retry) {
  return {RequestId{1}, AttemptId{attempt}, Error{Code::kPeerLost, "the worker died"}, retry, {}};
}

}  // namespace

TEST_CASE("tokens in order go to the client and move the position") {
  Stream stream = fresh();
  CHECK(stream.attempt() == AttemptId{1});
  const StreamStep step = stream.on_tokens(run(1, 10, {7, 8}), kStart);
  CHECK(step.tokens == std::vector<TokenId>{7, 8});
  CHECK(step.first_position == 10);
  CHECK(stream.position() == 12);
}

TEST_CASE("an overlap is cut, a repeat is nothing") {
  Stream stream = fresh();
  stream.on_tokens(run(1, 10, {7, 8}), kStart);
  CHECK(stream.on_tokens(run(1, 11, {8, 9}), kStart).tokens == std::vector<TokenId>{9});
  CHECK(stream.on_tokens(run(1, 10, {7, 8, 9}), kStart).tokens.empty());
  CHECK(stream.sent() == std::vector<TokenId>{7, 8, 9});
}

TEST_CASE("a batch ahead of the position waits for what is missing") {
  Stream stream = fresh();
  CHECK(stream.on_tokens(run(1, 12, {9}), kStart).tokens.empty());
  CHECK(stream.on_tokens(run(1, 10, {7, 8}), kStart).tokens == std::vector<TokenId>{7, 8, 9});
}

TEST_CASE("a gap that does not close within a second raises the attempt") {
  Stream stream = fresh();
  stream.on_tokens(run(1, 10, {7}), kStart);
  stream.on_tokens(run(1, 12, {9}), kStart);
  CHECK(stream.next_due() == kStart + seconds(1));
  CHECK_FALSE(stream.on_time(kStart + milliseconds(999)).submit.has_value());
  const StreamStep step = stream.on_time(kStart + seconds(1));
  REQUIRE(step.submit.has_value());
  CHECK(step.submit->attempt == AttemptId{2});
  CHECK(step.submit->forced == std::vector<TokenId>{7});
}

TEST_CASE("more than 64 tokens ahead raise the attempt at once") {
  Stream stream = fresh();
  CHECK_FALSE(stream.on_tokens(run(1, 11, std::vector<TokenId>(64, 3)), kStart).submit.has_value());
  CHECK(stream.on_tokens(run(1, 80, {4}), kStart).submit.has_value());
}

TEST_CASE("a batch of an older attempt is dropped and answered with a stop") {
  Stream stream = fresh();
  stream.on_tokens(run(1, 10, {7}), kStart);
  stream.on_failure(failure(1, true), kStart);
  const StreamStep step = stream.on_tokens(run(1, 11, {8}), kStart);
  CHECK(step.tokens.empty());
  REQUIRE(step.stops.size() == 1);
  CHECK(step.stops[0].attempt == AttemptId{1});
  CHECK(stream.position() == 11);
}

TEST_CASE("a retry carries forced tokens and the first basis") {
  Stream stream = fresh();
  TokenRun first = run(1, 10, {7});
  first.basis = Basis{.mode = BasisMode::kBounded, .tail_start = 3};
  stream.on_tokens(first, kStart);
  const StreamStep step = stream.on_failure(failure(1, true), kStart);
  REQUIRE(step.submit.has_value());
  CHECK(step.submit->attempt == AttemptId{2});
  CHECK(step.submit->forced == std::vector<TokenId>{7});
  REQUIRE(step.submit->basis.has_value());
  CHECK(step.submit->basis->tail_start == 3);
}

TEST_CASE("a failure of an older attempt changes nothing") {
  Stream stream = fresh();
  stream.on_failure(failure(1, true), kStart);
  const StreamStep step = stream.on_failure(failure(1, false), kStart);
  CHECK_FALSE(step.error.has_value());
  CHECK_FALSE(stream.done());
}

TEST_CASE("attempts are bounded, then the client is told once") {
  Stream stream = fresh();
  for (std::uint32_t attempt = 1; attempt < 5; ++attempt) {
    CHECK_FALSE(stream.on_failure(failure(attempt, true), kStart).error.has_value());
  }
  const StreamStep last = stream.on_failure(failure(5, true), kStart);
  REQUIRE(last.error.has_value());
  CHECK(last.error->code == Code::kUnavailable);
  CHECK_FALSE(last.submit.has_value());
  CHECK(stream.done());
  CHECK_FALSE(stream.on_failure(failure(5, true), kStart).error.has_value());
}

TEST_CASE("an attempt that brought tokens begins the count anew, one that brought a few does not") {
  std::vector<TokenId> many(16);
  std::iota(many.begin(), many.end(), 100);
  Stream stream = fresh();
  Position at = 10;
  std::uint32_t attempt = 1;
  for (; attempt <= 50; ++attempt) {
    stream.on_tokens(run(attempt, at, many), kStart);
    at += std::ssize(many);
    const StreamStep step = stream.on_failure(failure(attempt, true), kStart);
    REQUIRE_FALSE(step.error.has_value());
    CHECK(step.submit.has_value());  // at once: nothing failed twice
  }
  for (int i = 0; i < 3; ++i, ++attempt) {
    stream.on_tokens(run(attempt, at, {7}), kStart);
    at += 1;
    CHECK_FALSE(stream.on_failure(failure(attempt, true), kStart).error.has_value());
    stream.on_time(kStart + seconds(1));
  }
  CHECK(stream.on_failure(failure(attempt, true), kStart).error.has_value());
}

TEST_CASE("the second attempt follows at once, each later one after a longer pause") {
  StreamLimits limits;
  limits.attempts = 20;
  Stream stream(first_submission(), limits, kStart);
  CHECK(stream.on_failure(failure(1, true), kStart).submit.has_value());
  Nanos expected = milliseconds(50);
  for (std::uint32_t attempt = 2; attempt < 19; ++attempt) {
    CHECK_FALSE(stream.on_failure(failure(attempt, true), kStart).submit.has_value());
    CHECK(stream.next_due() == kStart + expected);
    CHECK(stream.on_time(kStart + expected).submit.has_value());
    expected = std::min<Nanos>(2 * expected, seconds(1));
  }
}

TEST_CASE("a failure that names a time is tried again then") {
  Stream stream = fresh();
  StreamFailure later = failure(1, true);
  later.retry_after = milliseconds(200);
  CHECK_FALSE(stream.on_failure(later, kStart).submit.has_value());
  CHECK(stream.next_due() == kStart + milliseconds(200));
  CHECK(stream.on_time(kStart + milliseconds(200)).submit.has_value());
}

TEST_CASE("silence raises the attempt, later before the first token than after it") {
  Stream waiting = fresh();
  CHECK_FALSE(waiting.on_time(kStart + seconds(301)).submit.has_value());
  CHECK(waiting.on_time(kStart + seconds(600)).submit.has_value());
  Stream started = fresh();
  started.on_tokens(run(1, 10, {7}), kStart);
  CHECK(started.on_time(kStart + seconds(300)).submit.has_value());
}

TEST_CASE("the deadline ends a stream that nobody answered") {
  Stream stream = fresh();
  const StreamStep step = stream.on_time(kStart + seconds(3'601));
  REQUIRE(step.error.has_value());
  CHECK(step.error->code == Code::kDeadline);
  CHECK(stream.done());
}

TEST_CASE("a finish counts only at the position") {
  Stream stream = fresh();
  TokenRun last = run(1, 11, {8});
  last.finish = Finish::kLength;
  CHECK(stream.on_tokens(last, kStart).finish == Finish::kNone);  // 10 is missing
  const StreamStep step = stream.on_tokens(run(1, 10, {7}), kStart);
  CHECK(step.finish == Finish::kLength);
  CHECK(stream.done());
}

TEST_CASE("a stop string ends the stream and stops its attempt there") {
  Stream stream = fresh();
  stream.on_tokens(run(1, 10, {7, 8, 9}), kStart);
  const StreamStep step = stream.on_stop_string(12);
  REQUIRE(step.stops.size() == 1);
  CHECK(step.stops[0].end == 12);
  CHECK(step.finish == Finish::kStop);
  CHECK(stream.on_tokens(run(1, 13, {4}), kStart).tokens.empty());
}

TEST_CASE("an attempt that contradicts what was sent is given up") {
  Stream stream = fresh();
  stream.on_tokens(run(1, 10, {7, 8}), kStart);
  const StreamStep step = stream.on_tokens(run(1, 11, {99, 9}), kStart);
  CHECK(step.tokens.empty());
  CHECK(step.submit.has_value());
}

TEST_CASE("the client gets the true tokens once and in order, whatever the network does") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::vector<TokenId> truth(1 + random() % 120);
    for (TokenId& token : truth) {
      token = static_cast<TokenId>(random() % 1'000);
    }
    Submission submission = first_submission();
    Stream stream(submission, {.attempts = 1'000'000}, kStart);
    std::vector<TokenId> got;
    std::deque<TokenRun> network;
    Instant now = kStart;
    std::uint32_t working = 1;  // attempt the worker runs
    std::size_t next = 0;       // index of the token it makes next
    bool ended = false;
    const auto act = [&](const StreamStep& step) {
      REQUIRE((step.tokens.empty() ||
               step.first_position == kPrompt + static_cast<Position>(got.size())));
      got.insert(got.end(), step.tokens.begin(), step.tokens.end());
      ended = ended || step.finish != Finish::kNone;
      REQUIRE_FALSE(step.error.has_value());
      if (step.submit) {
        REQUIRE(step.submit->forced == got);
        working = step.submit->attempt.value;
        next = step.submit->forced.size();
      }
    };
    for (int turn = 0; !ended; ++turn) {
      REQUIRE(turn < 100'000);
      now += milliseconds(10);
      if (next < truth.size()) {
        const std::size_t count = 1 + random() % std::min<std::size_t>(3, truth.size() - next);
        TokenRun made = run(working,
                            kPrompt + static_cast<Position>(next),
                            {truth.begin() + static_cast<std::ptrdiff_t>(next),
                             truth.begin() + static_cast<std::ptrdiff_t>(next + count)});
        next += count;
        made.finish = next == truth.size() ? Finish::kLength : Finish::kNone;
        if (random() % 20 != 0) {  // lost
          network.push_back(made);
        }
        if (random() % 10 == 0) {  // doubled
          network.push_back(made);
        }
      }
      if (random() % 50 == 0) {
        act(stream.on_failure(
            {RequestId{1}, stream.attempt(), Error{Code::kPeerLost, "died"}, true, {}}, now));
      }
      while (!network.empty() && random() % 3 != 0) {
        const auto which = static_cast<std::ptrdiff_t>(
            random() % std::min<std::size_t>(network.size(), 4));  // reordered
        TokenRun delivered = network[static_cast<std::size_t>(which)];
        network.erase(network.begin() + which);
        act(stream.on_tokens(std::move(delivered), now));
      }
      act(stream.on_time(now));
    }
    REQUIRE(got == truth);
    REQUIRE(stream.done());
  }
}
