// First tokens of a recorded half hour of chat, by every way to choose an instance.
#include "tests/sim/fleet/prefill_replay.h"

#include <chrono>
#include <doctest/doctest.h>
#include <string>

using namespace shoal;
using namespace shoal::sim;
using std::chrono::hours;
using std::chrono::milliseconds;

namespace {

std::vector<PrefillRequest> chat() {
  const auto trace = read_trace(std::string(SHOAL_TRACES) + "/chat-800.jsonl.gz", 0);
  REQUIRE(trace.has_value());
  return prefill_requests(*trace, Nanos{0}, hours(100));
}

PrefillTrial trial(const char* policy, double utilisation) {
  PrefillTrial made;
  made.utilisation = utilisation;
  made.policy = find_prefill_policy(policy);
  made.limits = {
      .quota = milliseconds(60), .kv_patience = hours(1'000), .least_quota = milliseconds(20)};
  return made;
}

TraceRequest request(std::int64_t at_ms, std::int64_t input, std::vector<BlockRun> blocks) {
  TraceRequest made;
  made.arrival_ms = at_ms;
  made.input_tokens = input;
  made.blocks = std::move(blocks);
  return made;
}

}  // namespace

TEST_CASE("a prompt computes what an infinite cache does not have, at least its last token") {
  const std::vector<TraceRequest> trace = {request(0, 1'280, {{0, 10}}),
                                           request(1'000, 1'280, {{0, 10}}),
                                           request(2'000, 1'536, {{0, 10}, {50, 2}})};
  const auto requests = prefill_requests(trace, Nanos{0}, hours(1));
  REQUIRE(requests.size() == 3);
  CHECK((requests[0].hit == 0 && requests[0].rows == 1'280));
  CHECK(requests[1].hit == 9 * 128);
  CHECK(requests[2].hit == 10 * 128);
}

TEST_CASE(
    "windows are there for 180 s behind the session's last prompt, else a window runs again") {
  std::vector<TraceRequest> trace = {request(0, 1'300, {{0, 10}}),
                                     request(5'000, 1'500, {{0, 11}}),
                                     request(300'000, 1'700, {{0, 13}})};
  for (TraceRequest& turn : trace) {
    turn.session = "s";
  }
  trace[1].think_ms = 3'000;
  trace[2].think_ms = 290'000;
  const auto requests = prefill_requests(trace, Nanos{0}, hours(1));
  CHECK(requests[1].rows == 1'500 - 10 * 128);
  CHECK(requests[2].rows == 1'700 - 11 * 128 + 128);
}

TEST_CASE("every request gets its first token, by every policy") {
  const auto requests = chat();
  for (const PrefillPolicyRow& row : prefill_policies()) {
    CAPTURE(row.name);
    CHECK(replay_prefill(requests, trial(row.name.data(), 0.9)).ttft_ms.size() == requests.size());
  }
}

TEST_CASE("the same seed gives the same figures, with old reports and wrong predictions too") {
  const auto requests = chat();
  PrefillTrial uncertain = trial("first_token4", 0.95);
  uncertain.stale = milliseconds(50);
  uncertain.error = 0.2;
  PrefillFigures first = replay_prefill(requests, uncertain);
  PrefillFigures second = replay_prefill(requests, uncertain);
  CHECK(first.ttft_ms.mean() == second.ttft_ms.mean());
  CHECK(first.ttft_ms.quantile(0.99) == second.ttft_ms.quantile(0.99));
  CHECK(first.steps == second.steps);
  uncertain.seed = 2;
  CHECK(replay_prefill(requests, uncertain).ttft_ms.mean() != first.ttft_ms.mean());
}

TEST_CASE("a predicted first token is a better signal than counts and sums of work") {
  const auto requests = chat();
  const double ours = replay_prefill(requests, trial("first_token", 0.95)).ttft_ms.mean();
  for (const char* other : {"round_robin", "least_requests", "least_work", "finish"}) {
    CAPTURE(other);
    CHECK(ours < 0.95 * replay_prefill(requests, trial(other, 0.95)).ttft_ms.mean());
  }
}

TEST_CASE("a cold prompt of a million tokens at most doubles what the shortest wait") {
  const auto requests = chat();
  PrefillTrial alone = trial("first_token", 0.05);
  PrefillTrial beside = alone;
  beside.cold_rows = 1'000'000;
  const double unloaded = replay_prefill(requests, alone).shortest_ms.quantile(0.99);
  CHECK(replay_prefill(requests, beside).shortest_ms.quantile(0.99) <= 2 * unloaded);
}

TEST_CASE("shared prompts come sooner, in the mean and at the end, and short ones do not wait") {
  const auto requests = chat();
  PrefillTrial whole = trial("first_token", 0.7);
  PrefillTrial shared = whole;
  shared.limits.split_sync = milliseconds(1);
  PrefillFigures one = replay_prefill(requests, whole);
  PrefillFigures many = replay_prefill(requests, shared);
  CHECK(many.ttft_ms.size() == one.ttft_ms.size());
  CHECK(many.ttft_ms.mean() < 0.8 * one.ttft_ms.mean());
  CHECK(many.ttft_ms.quantile(0.99) < 0.8 * one.ttft_ms.quantile(0.99));
  CHECK(many.shortest_ms.quantile(0.99) <= one.shortest_ms.quantile(0.99));
}

TEST_CASE("in saturation no rank waits for another by more than a twentieth") {
  CHECK(replay_prefill(chat(), trial("first_token", 2)).busy_imbalance <= 1.05);
}
