// Decode placement under recorded lengths: what counting misses, what moves add, and that a run can
// be repeated.
#include "tests/sim/fleet/decode_replay.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

using namespace shoal;
using namespace shoal::sim;

namespace {

std::vector<TraceRequest> excerpt() {
  auto requests = read_trace(std::string(SHOAL_TRACES) + "/agentic-600.jsonl.gz", 0);
  REQUIRE_MESSAGE(requests.has_value(), requests.error().message);
  return *std::move(requests);
}

DecodeFleet fleet() {
  return {.ranks = 64,
          .per_rank = 32,
          .warm_up = std::chrono::seconds(3),
          .measured = std::chrono::seconds(5),
          .moves_a_step = 1};
}

DecodeReplay run(std::string_view name,
                 const DecodeFleet& fleet,
                 const std::vector<std::int64_t>& contexts) {
  const auto rows = decode_policies();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const DecodeRow& r) { return r.name == name; });
  REQUIRE(row != rows.end());
  return replay_decode(decode_lengths(excerpt(), contexts, fleet.seed), fleet, *row);
}

}  // namespace

TEST_CASE("with contexts of 1 k and 500 k, counting requests fails and predicted time does not") {
  const std::vector<std::int64_t> mix{1'000, 500'000};
  const DecodeReplay counted = run("least_requests", fleet(), mix);
  const DecodeReplay timed = run("least_time", fleet(), mix);
  const DecodeReplay moved = run("least_time_moves", fleet(), mix);
  CHECK(counted.requests < 1.03);
  CHECK(counted.time > 1.04);
  CHECK(timed.time < 1.03);
  CHECK(moved.time < timed.time);
  CHECK(moved.moves > 0);
  CHECK(timed.moves == 0);
}

TEST_CASE("balancing KV alone leaves ranks with too many answers") {
  const DecodeReplay by_kv = run("least_kv", fleet(), {});
  CHECK(by_kv.kv < 1.15);
  CHECK(by_kv.time > 1.1);
}

TEST_CASE("a balanced decode group holds the answers that the rate was made for") {
  const DecodeReplay replay = run("least_time", fleet(), {});
  CHECK(replay.live == doctest::Approx(32).epsilon(0.1));
  CHECK(replay.step_ms.mean() > 6 + 0.12 * replay.live);
  CHECK(replay.placed > 64 * 32);
}

TEST_CASE("wrong cost coefficients cost balance, not answers") {
  DecodeFleet wrong = fleet();
  wrong.believed = {.step = Nanos{0}, .row_ps = 0, .pair_fs = 0};
  const DecodeReplay replay = run("least_time", wrong, {});
  CHECK(replay.time < 1.1);  // equal predictions: the fewest answers
}

TEST_CASE("equal seeds give equal decode runs, others do not") {
  for (const DecodeRow& row : decode_policies()) {
    CAPTURE(row.name);
    DecodeFleet small = fleet();
    small.ranks = 8;
    small.measured = std::chrono::seconds(1);
    const auto lengths = decode_lengths(excerpt(), {}, 1);
    const DecodeReplay one = replay_decode(lengths, small, row);
    const DecodeReplay same = replay_decode(lengths, small, row);
    small.seed = 2;
    CHECK(one.time == same.time);
    CHECK(one.placed == same.placed);
    CHECK(one.time != replay_decode(lengths, small, row).time);
  }
}

TEST_CASE("a single rank with a single answer is always in balance") {
  DecodeFleet one = fleet();
  one.ranks = 1;
  one.per_rank = 1;
  for (const DecodeRow& row : decode_policies()) {
    CHECK(replay_decode(std::vector<DecodeLength>{{1, 0}, {1'000'000, 1}}, one, row).time == 1);
  }
}
