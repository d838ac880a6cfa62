// The decode rank an answer joins.
#include "actors/policy/decode_balancer.h"

#include <array>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace shoal;

namespace {
// A row costs as much as 1,000 tokens of KV.
const CostModel kCost({.step = Nanos{0}, .row_ps = 1'000'000, .pair_fs = 1'000'000});
}  // namespace

TEST_CASE("an answer joins the decode rank whose step stays shortest") {
  const std::array<DecodeRank, 3> ranks = {
      {{true, 0, 10, 50'000, {9, 9}}, {true, 0, 30, 10'000, {9, 9}}, {true, 0, 5, 90'000, {9, 9}}}};
  // 11 + 50 + 2 = 63 us; 31 + 10 + 2 = 43 us; 6 + 90 + 2 = 98 us.
  const auto choice =
      pick_least(ranks, {.device = 0, .blocks = 0, .tokens = 2'000}, kCost, 64, by_step);
  REQUIRE(choice.has_value());
  CHECK(choice->rank == 1);
  CHECK(choice->step == Nanos{43'000});
}

TEST_CASE("a decode rank without room, place, life or the KV's device takes nothing") {
  const DecodeNeed need{.device = 0, .blocks = 5, .tokens = 100};
  const auto takes = [&](DecodeRank rank) {
    return pick_least({&rank, 1}, need, kCost, 8, by_step).has_value();
  };
  CHECK(takes({true, 0, 7, 0, {5, 1}}));
  CHECK_FALSE(takes({false, 0, 7, 0, {5, 1}}));
  CHECK_FALSE(takes({true, 1, 7, 0, {5, 1}}));
  CHECK_FALSE(takes({true, 0, 8, 0, {5, 1}}));
  CHECK_FALSE(takes({true, 0, 7, 0, {4, 1}}));
  CHECK_FALSE(takes({true, 0, 7, 0, {5, 0}}));
}

TEST_CASE("no decode rank is a favourite among equals") {
  constexpr int kRequests = 3'000;
  const std::array<DecodeRank, 3> ranks = {
      {{true, 0, 4, 500, {9, 9}}, {true, 0, 4, 500, {9, 9}}, {true, 0, 4, 500, {9, 9}}}};
  std::array<int, 3> taken{};
  for (std::uint64_t request = 0; request < kRequests; ++request) {
    const DecodeNeed need{.device = 0, .blocks = 1, .tokens = 10, .tie = request};
    ++taken[pick_least(ranks, need, kCost, 64, by_step).value().rank];
  }
  for (const int count : taken) {
    CHECK(count > kRequests / 3 - 150);  // five deviations of a fair draw: 5 * sqrt(3000 * 2/9)
  }
}

TEST_CASE("no decode rank is overfilled and the chosen step is the least, whatever the load") {
  std::mt19937_64 random(5);
  MESSAGE("seed 5");
  for (int round = 0; round < 1'000; ++round) {
    std::vector<DecodeRank> ranks(1 + random() % 16);
    for (DecodeRank& rank : ranks) {
      rank = {random() % 8 != 0,
              static_cast<std::uint32_t>(random() % 2),
              static_cast<std::int64_t>(random() % 10),
              static_cast<std::int64_t>(random() % 100'000),
              {static_cast<std::int64_t>(random() % 20), static_cast<std::int64_t>(random() % 3)}};
    }
    const DecodeNeed need{.device = static_cast<std::uint32_t>(random() % 2),
                          .blocks = static_cast<std::int64_t>(random() % 20),
                          .tokens = static_cast<Position>(random() % 10'000)};
    const auto choice = pick_least(ranks, need, kCost, 8, by_step);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const DecodeRank& rank = ranks[r];
      const bool fits =
          rank.alive && rank.device == need.device && rank.live < 8 &&
          (need.blocks == 0 || (rank.room.blocks >= need.blocks && rank.room.sequences > 0));
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

TEST_CASE("a rank whose node failed a moment ago is taken only where no other could hold it") {
  const DecodeRank idle_but_failed{true, 0, 0, 0, {9, 9}, 9, true};
  const DecodeRank busy{true, 0, 5, 50'000, {9, 9}, 9, false};
  const DecodeNeed need{.device = {}, .blocks = 3, .tokens = 100};
  const CostModel cost(CostCoefficients{});
  const std::vector<DecodeRank> both{idle_but_failed, busy};
  CHECK(pick_least(both, need, cost, 8, by_step)->rank == 1);
  const std::vector<DecodeRank> alone{idle_but_failed};
  CHECK(pick_least(alone, need, cost, 8, by_step)->rank == 0);
  const DecodeRank small{true, 0, 0, 0, {2, 9}, 2, false};
  const std::vector<DecodeRank> with_small{idle_but_failed, small};
  CHECK(pick_least(with_small, need, cost, 8, by_step)->rank == 0);
}

TEST_CASE("an answer that no rank could ever hold is told from one that waits for room") {
  const DecodeNeed need{.device = {}, .blocks = 3, .tokens = 100};
  const std::vector<DecodeRank> full{{true, 0, 0, 0, {0, 0}, 9}};
  CHECK_FALSE(fits_nowhere(full, need));
  const std::vector<DecodeRank> small{{true, 0, 0, 0, {2, 9}, 2}, {false, 0, 0, 0, {9, 9}, 9}};
  CHECK(fits_nowhere(small, need));
  CHECK_FALSE(fits_nowhere({}, need));
}
