// Top-k and candidate blocks: the tie rule, the limits, and a million positions.
#include "kernels/top_k.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <random>

namespace shoal::kernels {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
using Positions = std::vector<std::int64_t>;

// By the definition: sort everything.
Positions sorted_top(const std::vector<float>& scores, std::int64_t k) {
  Positions order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::erase_if(order,
                [&](std::int64_t p) { return scores[static_cast<std::size_t>(p)] == kNever; });
  std::sort(order.begin(), order.end());
  return order;
}

// Few distinct values, so that ties are common, as rectified scores have.
std::vector<float> random_scores(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> scores(count);
  for (float& s : scores) {
    const unsigned value = random() % 64;
    s = value == 0 ? kNever : static_cast<float>(value / 2) - 8.0F;
  }
  return scores;
}

}  // namespace

TEST_CASE("the best scores are selected in position order, ties to the lower position") {
  const std::vector<float> scores = {1.0F, 3.0F, 2.0F, 3.0F, 2.0F, 0.0F, 2.0F};
  CHECK(select_top(scores, 1) == Positions{1});
  CHECK(select_top(scores, 2) == Positions{1, 3});
  CHECK(select_top(scores, 4) == Positions{1, 2, 3, 4});
  CHECK(select_top(scores, 7) == Positions{0, 1, 2, 3, 4, 5, 6});
  CHECK(select_top(scores, 100).size() == 7);
  CHECK(select_top(scores, 0).empty());
}

TEST_CASE("-inf and NaN are never selected, zeros of either sign tie") {
  const std::vector<float> scores = {
      kNever, -0.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F, -1.0F};
  CHECK(select_top(scores, 5) == Positions{1, 3, 4});
  CHECK(select_top(scores, 1) == Positions{1});
  CHECK(select_top(std::vector<float>(3, kNever), 2).empty());
}

TEST_CASE("selection equals a stable sort for random scores with many ties") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const std::vector<float> scores = random_scores(1 + seed * 37 % 900, seed);
    for (const std::int64_t k : {1, 8, 100, 512}) {
      REQUIRE(select_top(scores, k) == sorted_top(scores, k));
    }
  }
}

TEST_CASE("selection among ranges returns positions, not indices") {
  const EntryRange ranges[] = {{4, 2}, {100, 0}, {1000, 3}};
  CHECK(select_top(std::vector<float>{1.0F, 5.0F, 2.0F, 9.0F, 2.0F}, ranges, 3) ==
        Positions{5, 1000, 1001});
}

TEST_CASE("candidate blocks keep the best and always the newest") {
  const std::vector<float> scores = {9.0F, 0.0F, 1.0F, 8.0F, 2.0F, 7.0F, -5.0F, 100.0F};
  CHECK(candidate_blocks(scores, 7, 2, 2) ==
        Positions{0, 3});  // block 3 holds position 6; position 7 is not visible
  CHECK(candidate_blocks(scores, 7, 3, 2) == Positions{0, 1, 3});
  CHECK(candidate_blocks(scores, 1, 3, 2) == Positions{0});
  CHECK(candidate_blocks(scores, 0, 3, 2).empty());
}

TEST_CASE("candidate ranges end at the newest visible position and join neighbours") {
  const Positions blocks = {0, 2, 3};
  const std::vector<EntryRange> ranges = candidate_ranges(blocks, 15, 4);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].first == 0);
  CHECK(ranges[0].count == 4);
  CHECK(ranges[1].first == 8);
  CHECK(ranges[1].count == 7);
}

TEST_CASE("a million positions are selected like a few") {
  const std::vector<float> scores = random_scores(1'000'000, 7);
  CHECK(select_top(scores, 512) == sorted_top(scores, 512));
  const Positions blocks = candidate_blocks(scores, 999'999, 2048, 8);
  CHECK(blocks.size() == 2048);
  CHECK(blocks.back() == 999'998 / 8);
  std::vector<float> best(125'000, kNever);
  for (std::size_t i = 0; i < 999'999; ++i) {
    best[i / 8] = std::max(best[i / 8], scores[i]);
  }
  best.back() = std::numeric_limits<float>::infinity();
  CHECK(blocks == sorted_top(best, 2048));
}

}  // namespace shoal::kernels
