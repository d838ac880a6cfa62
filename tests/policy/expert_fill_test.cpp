// The split that follows a step: as low as any on forests, never worse than even, quick to level.
#include "actors/policy/expert_fill.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>

#include "actors/policy/expert_eplb.h"
#include "actors/policy/expert_pack.h"
#include "actors/policy/expert_split.h"
#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

std::int32_t fullest(const ExpertShape& shape,
                     const SlotExperts& expert_at,
                     const std::vector<std::int32_t>& counts) {
  ExpertFill fill(shape, expert_at, std::vector<double>(shape.experts, 1));
  std::vector<std::int32_t> tokens(shape.all_slots());
  const std::int32_t most = fill.split(counts, tokens);
  CHECK(most == rank_levels(shape, tokens).most);
  CHECK(most == *std::max_element(fill.levels().begin(), fill.levels().end()));
  return most;
}

}  // namespace

TEST_CASE("what one rank has too much is passed on along a chain of replicas") {
  constexpr ExpertShape kShape{.experts = 7, .ranks = 4, .slots = 3};
  // Experts 0, 1, 2 join ranks 0-1, 1-2, 2-3; the others are alone, 3 with far too much.
  const SlotExperts expert_at{0, 3, -1, 0, 1, 4, 1, 2, 5, 2, 6, -1};
  CHECK(fullest(kShape, expert_at, {300, 300, 300, 400, 100, 100, 100}) == 400);
  CHECK(fullest(kShape, expert_at, {300, 300, 300, 700, 0, 0, 0}) == 700);
  CHECK(fullest(kShape, expert_at, {0, 0, 0, 100, 200, 300, 400}) == 400);
}

TEST_CASE("an expert with many replicas levels all of their ranks") {
  constexpr ExpertShape kShape{.experts = 5, .ranks = 4, .slots = 2};
  const SlotExperts expert_at{0, 1, 0, 2, 0, 3, 0, 4};
  CHECK(fullest(kShape, expert_at, {1'000, 500, 300, 100, 100}) == 500);
  CHECK(fullest(kShape, expert_at, {100, 500, 300, 100, 100}) == 500);
}

TEST_CASE("two slots of a rank with one expert are one place") {
  constexpr ExpertShape kShape{.experts = 2, .ranks = 2, .slots = 3};
  CHECK(fullest(kShape, {0, 0, 1, 0, -1, -1}, {1'000, 200}) <= 602);
  CHECK(fullest(kShape, {0, 0, -1, 1, -1, -1}, {1'000, 200}) == 1'000);
}

TEST_CASE("no even split is better, on any placement") {
  for (const ExpertShape& shape : kExpertShapes) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(shape.ranks);
      const auto loads = drawn_loads(shape.experts, seed);
      const SlotExperts expert_at = eplb_global(shape, loads);
      const auto counts = drawn_counts(loads, seed + 100);
      std::vector<std::int32_t> even(shape.all_slots());
      expert_splits().back().make(shape, expert_at, loads)->split(counts, even);
      // 0.2 % counts as level, and tokens are whole.
      CHECK(fullest(shape, expert_at, counts) <= rank_levels(shape, even).most * 1.002 + 1);
    }
  }
}

TEST_CASE("the placement that is planned for it is levelled to a percent") {
  constexpr ExpertShape kShape{.experts = 384, .ranks = 64, .slots = 7};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto loads = drawn_loads(kShape.experts, seed);
    const auto counts = drawn_counts(loads, seed + 100, 0.1);
    const double mean =
        std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(kShape.ranks);
    CHECK(fullest(kShape, pack_experts(kShape, loads), counts) <= 1.01 * mean);
  }
}

TEST_CASE("shares of an expert's slots sum to one, and suit the forecast") {
  constexpr ExpertShape kShape{.experts = 2, .ranks = 2, .slots = 2};
  const ExpertFill fill(kShape, SlotExperts{0, 1, 0, -1}, std::vector<double>{3, 1});
  CHECK(fill.shares()[0] == doctest::Approx(1.0 / 3));
  CHECK(fill.shares()[2] == doctest::Approx(2.0 / 3));
  CHECK(fill.shares()[1] == 1);
}
