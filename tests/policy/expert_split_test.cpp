// Every split serves all tokens of a step, from any placement.
#include "actors/policy/expert_split.h"

#include <doctest/doctest.h>
#include <numeric>

#include "actors/policy/expert_eplb.h"
#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

std::vector<std::int32_t> split_with(const ExpertSplitRow& row,
                                     const ExpertShape& shape,
                                     const SlotExperts& expert_at,
                                     const std::vector<double>& forecast,
                                     const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> tokens(shape.all_slots(), -1);
  row.make(shape, expert_at, forecast)->split(counts, tokens);
  return tokens;
}

const ExpertSplitRow& row_of(std::string_view name) {
  for (const ExpertSplitRow& row : expert_splits()) {
    if (row.name == name) {
      return row;
    }
  }
  FAIL("no such row");
  return expert_splits().front();
}

void check_serves(const ExpertShape& shape,
                  const SlotExperts& expert_at,
                  const std::vector<std::int32_t>& counts,
                  const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> served(shape.experts, 0);
  for (std::int32_t slot = 0; slot < shape.all_slots(); ++slot) {
    REQUIRE(tokens[slot] >= 0);
    if (expert_at[slot] == kEmptySlot) {
      REQUIRE(tokens[slot] == 0);
    } else {
      served[expert_at[slot]] += tokens[slot];
    }
  }
  CHECK(served == counts);
}

}  // namespace

TEST_CASE("every split gives an expert's slots exactly its tokens, the same every time") {
  for (const ExpertSplitRow& row : expert_splits()) {
    for (const ExpertShape& shape : kExpertShapes) {
      CAPTURE(row.name);
      CAPTURE(shape.experts);
      const auto loads = drawn_loads(shape.experts, 3);
      const SlotExperts expert_at = eplb_global(shape, loads);
      const auto counts = drawn_counts(loads, 4);
      const auto tokens = split_with(row, shape, expert_at, loads, counts);
      check_serves(shape, expert_at, counts, tokens);
      CHECK(tokens == split_with(row, shape, expert_at, loads, counts));
    }
  }
}

TEST_CASE("every split works without tokens, without a forecast and with empty slots") {
  constexpr ExpertShape kShape{.experts = 3, .ranks = 3, .slots = 2};
  const SlotExperts expert_at{0, kEmptySlot, 1, 0, 2, 0};
  for (const ExpertSplitRow& row : expert_splits()) {
    CAPTURE(row.name);
    for (const std::vector<std::int32_t>& counts :
         {std::vector<std::int32_t>{0, 0, 0}, {1, 0, 0}, {1'000'000'000, 7, 0}}) {
      if (row.name == "hash" && counts[0] > 1) {
        continue;  // draws a number for each token
      }
      check_serves(kShape,
                   expert_at,
                   counts,
                   split_with(row, kShape, expert_at, std::vector<double>(3, 0), counts));
    }
  }
}

TEST_CASE("the even split is even") {
  constexpr ExpertShape kShape{.experts = 2, .ranks = 3, .slots = 2};
  CHECK(split_with(row_of("even"), kShape, {0, 1, 0, 0, kEmptySlot, 0}, {1, 1}, {10, 5}) ==
        std::vector<std::int32_t>{3, 5, 3, 2, 0, 2});
}

TEST_CASE("the split by hash follows shares that level the forecast") {
  constexpr ExpertShape kShape{.experts = 2, .ranks = 2, .slots = 2};
  // Rank 0 has 2,000 of expert 1: of 6,000 of expert 0 it should get 2,000, rank 1 the rest.
  const auto tokens =
      split_with(row_of("hash"), kShape, {0, 1, 0, kEmptySlot}, {3, 1}, {6'000, 2'000});
  CHECK(tokens[0] > 1'850);
  CHECK(tokens[0] < 2'150);
}

TEST_CASE("imbalance is the fullest rank by the mean one, and 1 without tokens") {
  constexpr ExpertShape kShape{.experts = 2, .ranks = 2, .slots = 2};
  CHECK(rank_levels(kShape, std::vector<std::int32_t>{3, 3, 1, 1}).imbalance(2) == 1.5);
  CHECK(rank_levels(kShape, std::vector<std::int32_t>(4, 0)).imbalance(2) == 1);
}
