// Where a request goes: class and prefill instance, decode rank.
#include <doctest/doctest.h>

#include <array>
#include <random>
#include <vector>

#include "actors/policy/decode_balancer.h"
#include "actors/policy/prefill_balancer.h"

using namespace shoal;
using std::chrono::milliseconds;

TEST_CASE("a request's class follows its predicted work, bounds belonging to the longer class") {
  const PrefillBounds bounds = {milliseconds(20), milliseconds(100), milliseconds(1'000)};
  CHECK(prefill_class(Nanos{0}, bounds) == 0);
  CHECK(prefill_class(milliseconds(20) - Nanos{1}, bounds) == 0);
  CHECK(prefill_class(milliseconds(20), bounds) == 1);
  CHECK(prefill_class(milliseconds(100), bounds) == 2);
  CHECK(prefill_class(milliseconds(999), bounds) == 2);
  CHECK(prefill_class(milliseconds(1'000), bounds) == 3);
}

TEST_CASE("a request goes to the instance that finishes it first") {
  const std::array<PrefillInstance, 3> instances = {{{true, milliseconds(50), 0}, {true, milliseconds(10), 0}, {true, milliseconds(30), 0}}};
  const auto choice = pick_prefill_instance(instances, milliseconds(5), 4);
  REQUIRE(choice.has_value());
  CHECK(choice->instance == 1);
  CHECK(choice->finish == milliseconds(15));
}

TEST_CASE("an instance that is gone or has enough waiting is passed over") {
  std::array<PrefillInstance, 3> instances = {{{false, Nanos{0}, 0}, {true, Nanos{0}, 4}, {true, milliseconds(30), 3}}};
  CHECK(pick_prefill_instance(instances, Nanos{1}, 4)->instance == 2);
  instances[2].waiting = 4;
  CHECK_FALSE(pick_prefill_instance(instances, Nanos{1}, 4).has_value());
}

TEST_CASE("ties between instances go to the lower index") {
  const std::array<PrefillInstance, 2> instances = {{{true, milliseconds(1), 0}, {true, milliseconds(1), 0}}};
  CHECK(pick_prefill_instance(instances, Nanos{1}, 1)->instance == 0);
}

namespace {
// A row costs as much as 1,000 tokens of KV.
const CostModel kCost({.step = Nanos{0}, .row_ps = 1'000'000, .pair_fs = 1'000'000});
}  // namespace

TEST_CASE("an answer joins the decode rank whose step stays shortest") {
  const std::array<DecodeRank, 3> ranks = {{{true, 0, 10, 50'000, 9}, {true, 0, 30, 10'000, 9}, {true, 0, 5, 90'000, 9}}};
  // 11 + 50 + 2 = 63 us; 31 + 10 + 2 = 43 us; 6 + 90 + 2 = 98 us.
  const auto choice = pick_decode_rank(ranks, {0, 0, 2'000}, kCost, 64);
  REQUIRE(choice.has_value());
  CHECK(choice->rank == 1);
  CHECK(choice->step == Nanos{43'000});
}

TEST_CASE("a decode rank without room, place, life or the KV's device takes nothing") {
  const DecodeNeed need{.device = 0, .blocks = 5, .tokens = 100};
  const auto takes = [&](DecodeRank rank) { return pick_decode_rank({&rank, 1}, need, kCost, 8).has_value(); };
  CHECK(takes({true, 0, 7, 0, 5}));
  CHECK_FALSE(takes({false, 0, 7, 0, 5}));
  CHECK_FALSE(takes({true, 1, 7, 0, 5}));
  CHECK_FALSE(takes({true, 0, 8, 0, 5}));
  CHECK_FALSE(takes({true, 0, 7, 0, 4}));
}

TEST_CASE("no decode rank is overfilled and the chosen step is the least, whatever the load") {
  std::mt19937_64 random(5);
  MESSAGE("seed 5");
  for (int round = 0; round < 1'000; ++round) {
    std::vector<DecodeRank> ranks(1 + random() % 16);
    for (DecodeRank& rank : ranks) {
      rank = {random() % 8 != 0, static_cast<std::uint32_t>(random() % 2), static_cast<std::int64_t>(random() % 10), static_cast<std::int64_t>(random() % 100'000),
              static_cast<std::int64_t>(random() % 20)};
    }
    const DecodeNeed need{static_cast<std::uint32_t>(random() % 2), static_cast<std::int64_t>(random() % 20), static_cast<Position>(random() % 10'000)};
    const auto choice = pick_decode_rank(ranks, need, kCost, 8);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const DecodeRank& rank = ranks[r];
      const bool fits = rank.alive && rank.device == need.device && rank.live < 8 && rank.free_blocks >= need.blocks;
      if (choice && choice->rank == r) {
        REQUIRE(fits);
      }
      if (fits) {
        REQUIRE(choice.has_value());
        REQUIRE(choice->step <= kCost.decode_step(rank.live + 1, rank.kv_tokens + need.tokens));
      }
    }
  }
}
