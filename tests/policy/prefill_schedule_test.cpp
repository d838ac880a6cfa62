// Steps of a prefill group by hand, then its promises over random loads.
#include "actors/policy/prefill_schedule.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <map>
#include <numeric>
#include <random>
#include <vector>

using namespace shoal;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// 1 us a row and nothing else: a quota of 512 us is 512 rows.
const CostModel kCost({.step = Nanos{0}, .row_ps = 1'000'000, .pair_fs = 0});
constexpr PrefillSchedule::Limits kLimits{.quota = microseconds(512), .kv_patience = seconds(2)};
constexpr Instant kNow{seconds(1'000)};

PrefillJob job(std::uint64_t id, int length_class, Position tokens, std::int64_t blocks = 1) {
  PrefillJob made;
  made.request = RequestId{id};
  made.attempt = AttemptId{1};
  made.length_class = length_class;
  made.span = {tokens, tokens, BasisMode::kExact};
  made.work = kCost.chunk(tokens, 0);
  made.arrived = kNow;
  made.deadline = kNow + seconds(100);
  made.blocks = blocks;
  return made;
}

const std::vector<PrefillRank> kOneRank = {{true, {100, 100}}};

std::int64_t rows_of(const std::vector<PrefillChunk>& chunks, std::uint64_t id) {
  std::int64_t rows = 0;
  for (const PrefillChunk& chunk : chunks) {
    rows += chunk.request == RequestId{id} ? chunk.rows : 0;
  }
  return rows;
}

// Ranks may share a prompt; an exchange takes as long as 64 rows.
constexpr PrefillSchedule::Limits kSharing{
    .quota = microseconds(512), .kv_patience = seconds(2), .split_sync = microseconds(64)};

const std::vector<PrefillRank> kFourRanks(4, {true, {100, 100}});

// Of all steps until nothing is left, each as long as its longest rank.
Nanos time_of(PrefillSchedule& schedule) {
  Nanos time{0};
  while (schedule.size() > 0) {
    std::vector<Nanos> load(kFourRanks.size());
    for (const PrefillChunk& chunk : schedule.plan(kFourRanks, kNow)) {
      load[chunk.rank] += chunk.cost;
      schedule.finish_chunk(chunk.request, chunk.attempt, chunk.rows);
    }
    time += *std::max_element(load.begin(), load.end());
  }
  return time;
}

}  // namespace

TEST_CASE("ranks that would wait take rows of a long prompt, where they may") {
  PrefillSchedule alone(kCost, kLimits);
  PrefillSchedule shared(kCost, kSharing);
  alone.add(job(1, 3, 100'000));
  shared.add(job(1, 3, 100'000));
  const Nanos by_one = time_of(alone);
  CHECK(by_one == microseconds(100'000));
  CHECK(time_of(shared) < by_one / 3);
}

TEST_CASE("pieces of a shared prompt follow each other, and no step is longer for them") {
  PrefillSchedule schedule(kCost, kSharing);
  schedule.add(job(1, 3, 100'000));
  schedule.add(job(2, 0, 200));
  const auto chunks = schedule.plan(kFourRanks, kNow);
  CHECK(rows_of(chunks, 2) == 200);
  std::vector<Nanos> load(kFourRanks.size());
  Position next = 0;
  for (const PrefillChunk& chunk : chunks) {
    load[chunk.rank] += chunk.cost;
    if (chunk.request == RequestId{1}) {
      CHECK(chunk.first == next);
      next += chunk.rows;
    }
  }
  CHECK(next > 3 * 384);
  for (const Nanos spent : load) {
    CHECK(spent <= kSharing.quota);
  }
}

TEST_CASE("a prompt is not shared where the exchange takes longer than what is won") {
  PrefillSchedule::Limits limits = kSharing;
  limits.split_sync = microseconds(300);
  PrefillSchedule schedule(kCost, limits);
  schedule.add(job(1, 3, 100'000));
  CHECK(schedule.plan(kFourRanks, kNow).size() == 1);
}

TEST_CASE("a rank that is gone takes no piece") {
  PrefillSchedule schedule(kCost, kSharing);
  schedule.add(job(1, 3, 100'000));
  std::vector<PrefillRank> ranks = kFourRanks;
  ranks[1].alive = ranks[3].alive = false;
  for (const PrefillChunk& chunk : schedule.plan(ranks, kNow)) {
    CHECK(ranks[chunk.rank].alive);
  }
}

TEST_CASE("a lone request gets the whole quota") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 3, 10'000));
  const auto chunks = schedule.plan(kOneRank, kNow);
  CHECK(chunks.size() == 1);
  CHECK(rows_of(chunks, 1) == 512);
}

TEST_CASE("a long prompt leaves room for a short one in the same step") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 3, 1'000'000));
  schedule.add(job(2, 0, 100));
  const auto chunks = schedule.plan(kOneRank, kNow);
  CHECK(rows_of(chunks, 2) == 100);
  CHECK(rows_of(chunks, 1) == 384);  // 412 are left: three blocks
}

TEST_CASE("inside a class the earliest deadline less work goes first") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 1, 400));
  PrefillJob urgent = job(2, 1, 400);
  urgent.deadline = kNow + seconds(1);
  schedule.add(urgent);
  const auto chunks = schedule.plan(kOneRank, kNow);
  CHECK(rows_of(chunks, 2) == 400);
  CHECK(rows_of(chunks, 1) == 0);  // less than one block is left
}

TEST_CASE("what has begun is finished before the next of its class starts") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 2, 1'024));
  CHECK(rows_of(schedule.plan(kOneRank, kNow), 1) == 512);
  CHECK_FALSE(schedule.finish_chunk(RequestId{1}, AttemptId{1}, 512));
  schedule.add(job(2, 2, 4'096));  // longer, so with less slack
  const auto chunks = schedule.plan(kOneRank, kNow);
  CHECK(rows_of(chunks, 1) == 512);
  CHECK(rows_of(chunks, 2) == 0);
}

TEST_CASE("new requests go longest first to the rank with least load") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 0, 100));
  schedule.add(job(2, 0, 128));
  schedule.add(job(3, 0, 120));
  const std::vector<PrefillRank> ranks = {{true, {100, 100}}, {true, {100, 100}}};
  std::map<std::uint64_t, std::size_t> rank;
  for (const PrefillChunk& chunk : schedule.plan(ranks, kNow)) {
    rank[chunk.request.value] = chunk.rank;
  }
  REQUIRE(rank.size() == 3);
  CHECK(rank[2] == 0);
  CHECK(rank[3] == 1);
  CHECK(rank[1] == 1);  // 120 is less than 128
}

TEST_CASE("a short prompt starts at once though long ones have filled every rank") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 2, 20'000));
  schedule.add(job(2, 2, 20'000));
  const std::vector<PrefillRank> ranks = {{true, {100, 100}}, {true, {100, 100}}};
  for (const PrefillChunk& chunk : schedule.plan(ranks, kNow)) {
    schedule.finish_chunk(chunk.request, chunk.attempt, chunk.rows);
  }
  schedule.add(job(3, 0, 100));
  const auto chunks = schedule.plan(ranks, kNow);
  CHECK(rows_of(chunks, 3) == 100);
  CHECK(rows_of(chunks, 1) + rows_of(chunks, 2) >= 512 + 384);
}

TEST_CASE("a long prompt goes where least has begun, not where this step has least to do") {
  PrefillSchedule schedule(kCost, kLimits);
  const std::vector<PrefillRank> ranks = {{true, {100, 100}}, {true, {100, 100}}};
  schedule.add(job(1, 3, 20'000));
  const auto first = schedule.plan(ranks, kNow);
  REQUIRE(first.size() == 1);
  schedule.finish_chunk(RequestId{1}, AttemptId{1}, first[0].rows);
  schedule.add(job(2, 2, 5'000));
  for (const PrefillChunk& chunk : schedule.plan(ranks, kNow)) {
    CHECK((chunk.request == RequestId{1}) == (chunk.rank == first[0].rank));
  }
}

TEST_CASE("what a rank would wait for the longest, it works") {
  PrefillSchedule schedule(kCost, kLimits);
  const std::vector<PrefillRank> ranks = {{true, {100, 100}}, {true, {100, 100}}};
  for (std::uint64_t id = 1; id <= 6; ++id) {
    schedule.add(job(id, 2, 700));
  }
  std::array<Nanos, 2> load{};
  for (const PrefillChunk& chunk : schedule.plan(ranks, kNow)) {
    load[chunk.rank] += chunk.cost;
  }
  CHECK(load[0] == kLimits.quota);
  CHECK(load[1] == kLimits.quota);
}

TEST_CASE("steps are short while little waits, and as long as the quota when much does") {
  constexpr PrefillSchedule::Limits kAdaptive{
      .quota = microseconds(4'096), .kv_patience = seconds(2), .least_quota = microseconds(512)};
  PrefillSchedule idle(kCost, kAdaptive);
  idle.add(job(1, 3, 1'000'000));
  CHECK(rows_of(idle.plan(kOneRank, kNow), 1) == 1'280);  // ten least quotas, in four steps
  PrefillSchedule busy(kCost, kAdaptive);
  Nanos cost{0};
  for (std::uint64_t id = 1; id <= 20; ++id) {
    busy.add(job(id, 2, 4'096));
  }
  for (const PrefillChunk& chunk : busy.plan(kOneRank, kNow)) {
    cost += chunk.cost;
  }
  CHECK(cost == microseconds(4'096));
  PrefillSchedule lone(kCost, kAdaptive);
  lone.add(job(1, 0, 600));
  CHECK(rows_of(lone.plan(kOneRank, kNow), 1) == 512);
}

TEST_CASE("a request without room for its worst case waits, and a smaller one may pass") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 0, 100, 50));
  schedule.add(job(2, 0, 100, 5));
  const std::vector<PrefillRank> ranks = {{true, {10, 10}}};
  const auto chunks = schedule.plan(ranks, kNow);
  CHECK(rows_of(chunks, 1) == 0);
  CHECK(rows_of(chunks, 2) == 100);
}

TEST_CASE("nobody passes a request that waited too long for memory") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 3, 100, 50));
  schedule.add(job(2, 0, 100, 5));
  const std::vector<PrefillRank> ranks = {{true, {10, 10}}};
  CHECK(schedule.plan(ranks, kNow + seconds(2)).empty());
  const std::vector<PrefillRank> freed = {{true, {50, 10}}};
  CHECK(rows_of(schedule.plan(freed, kNow + seconds(2)), 1) == 100);
}

TEST_CASE("a lost rank's requests are named and forgotten") {
  PrefillSchedule schedule(kCost, kLimits);
  schedule.add(job(1, 0, 100));
  schedule.add(job(2, 0, 100, 1'000));
  CHECK(schedule.plan(kOneRank, kNow).size() == 1);
  const auto lost = schedule.lose_rank(0);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].request == RequestId{1});
  CHECK(schedule.size() == 1);
}

TEST_CASE(
    "everything runs to its end in chunks on block borders, and no rank or memory is overdrawn") {
  constexpr std::uint64_t kSeed = 42;
  MESSAGE("seed ", kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 100; ++round) {
    PrefillSchedule schedule(kCost, kLimits);
    std::vector<PrefillRank> ranks(1 + random() % 4, PrefillRank{true, {40, 4}});
    std::map<RequestId, PrefillJob> left;
    for (std::uint64_t id = 1; id <= 30; ++id) {
      const PrefillJob added = job(id,
                                   static_cast<int>(random() % 4),
                                   static_cast<Position>(1 + random() % 3'000),
                                   static_cast<std::int64_t>(1 + random() % 40));
      left[added.request] = added;
      schedule.add(added);
    }
    Instant now = kNow;
    int steps = 0;
    while (!left.empty()) {
      REQUIRE(++steps < 10'000);
      const auto chunks = schedule.plan(ranks, now);
      REQUIRE_FALSE(chunks.empty());  // never a deadlock
      std::vector<Nanos> load(ranks.size());
      for (const PrefillChunk& chunk : chunks) {
        PrefillJob& mine = left.at(chunk.request);
        if (chunk.starts) {
          ranks[chunk.rank].room.blocks -= chunk.blocks;
          --ranks[chunk.rank].room.sequences;
          mine.rank = chunk.rank;
        }
        REQUIRE(mine.rank == chunk.rank);
        REQUIRE(ranks[chunk.rank].room.blocks >= 0);
        REQUIRE(ranks[chunk.rank].room.sequences >= 0);
        load[chunk.rank] += chunk.cost;
        mine.done += chunk.rows;
        REQUIRE((mine.done % kBlockTokens == 0 || mine.done == mine.span.total));
        const bool over = schedule.finish_chunk(chunk.request, chunk.attempt, chunk.rows);
        REQUIRE(over == (mine.done == mine.span.total));
        if (over) {
          ranks[chunk.rank].room.blocks += mine.blocks;
          ++ranks[chunk.rank].room.sequences;
          left.erase(chunk.request);
        }
      }
      for (const Nanos spent : load) {
        REQUIRE(spent <= kLimits.quota);
      }
      now += milliseconds(1);
    }
    REQUIRE(schedule.size() == 0);
  }
}
