// What every way to place answers must do, and what each one promises.
#include "actors/policy/decode_policies.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

constexpr std::int64_t kBatch = 8;
// A row costs as much as 1,000 tokens of KV.
const CostModel kCost({.step = Nanos{0}, .row_ps = 1'000'000, .pair_fs = 1'000'000});

DecodeRank rank_of(std::int64_t live, std::int64_t kv_tokens) {
  return {.alive = true, .live = live, .kv_tokens = kv_tokens, .room = {9, 9}, .blocks = 99};
}

std::vector<DecodeRank> drawn_ranks(Draw& draw) {
  std::vector<DecodeRank> ranks(draw.below(12));
  for (DecodeRank& rank : ranks) {
    rank = {.alive = draw.below(8) != 0,
            .device = static_cast<std::uint32_t>(draw.below(2)),
            .live = static_cast<std::int64_t>(draw.below(10)),
            .kv_tokens = static_cast<std::int64_t>(draw.below(100'000)),
            .room = {static_cast<std::int64_t>(draw.below(20)),
                     static_cast<std::int64_t>(draw.below(3))},
            .blocks = 15,
            .avoided = draw.below(4) == 0};
  }
  return ranks;
}

DecodeNeed drawn_need(Draw& draw) {
  return {.device = draw.below(2) == 0 ? std::optional<std::uint32_t>(0) : std::nullopt,
          .blocks = static_cast<std::int64_t>(draw.below(20)),
          .tokens = static_cast<Position>(draw.below(10'000)),
          .tie = draw.next()};
}

bool has_place(const DecodeRank& rank, const DecodeNeed& need) {
  return rank.alive && (!need.device || rank.device == *need.device) && rank.live < kBatch &&
         need.blocks <= std::max(rank.blocks, rank.room.blocks) &&
         (need.blocks == 0 || fits(rank.room, need.blocks));
}

std::unique_ptr<DecodePolicy> policy(std::string_view name) {
  const auto rows = decode_policies();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const DecodeRow& r) { return r.name == name; });
  REQUIRE(row != rows.end());
  return row->make(kCost, 1);
}

std::size_t placed(std::string_view name,
                   std::span<const DecodeRank> ranks,
                   const DecodeNeed& need = {}) {
  return policy(name)->place(ranks, need, kBatch).choice.value().rank;
}

}  // namespace

TEST_CASE("ours is the first decode policy, and no two have the same name") {
  std::set<std::string_view> names;
  for (const DecodeRow& row : decode_policies()) {
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.what.empty());
  }
  CHECK(decode_policies().front().name == "least_time_moves");
}

TEST_CASE(
    "no decode policy overfills a rank, or refuses an answer that an unavoided one can take") {
  for (const DecodeRow& row : decode_policies()) {
    CAPTURE(row.name);
    const auto made = row.make(kCost, 1);
    Draw draw(7);
    for (int round = 0; round < 1'000; ++round) {
      const auto ranks = drawn_ranks(draw);
      const DecodeNeed need = drawn_need(draw);
      const DecodePlacement placement = made->place(ranks, need, kBatch);
      const bool can = std::any_of(ranks.begin(), ranks.end(), [&need](const DecodeRank& rank) {
        return has_place(rank, need) && !rank.avoided;
      });
      REQUIRE(placement.choice.has_value() >= can);
      REQUIRE(placement.choice.has_value() == (placement.refusal == DecodeRefusal::kNone));
      if (placement.choice) {
        const DecodeRank& rank = ranks.at(placement.choice->rank);
        REQUIRE(has_place(rank, need));
        REQUIRE(placement.choice->step == step_with(rank, need, kCost));
      }
    }
  }
}

TEST_CASE("equal seeds and inputs give equal decode placements") {
  for (const DecodeRow& row : decode_policies()) {
    CAPTURE(row.name);
    const auto one = row.make(kCost, 3);
    const auto other = row.make(kCost, 3);
    Draw draw(11);
    for (int round = 0; round < 300; ++round) {
      const auto ranks = drawn_ranks(draw);
      const DecodeNeed need = drawn_need(draw);
      const auto first = one->place(ranks, need, kBatch);
      const auto second = other->place(ranks, need, kBatch);
      REQUIRE(first.refusal == second.refusal);
      REQUIRE((!first.choice || first.choice->rank == second.choice->rank));
    }
  }
}

TEST_CASE("a decode policy that looks at load only does not care in which order ranks are named") {
  for (const std::string_view name :
       {"least_time_moves", "least_time", "two_dim", "least_requests", "least_kv"}) {
    CAPTURE(name);
    Draw draw(13);
    for (int round = 0; round < 300; ++round) {
      std::vector<DecodeRank> ranks;
      for (std::int64_t r = 0; r < 8; ++r) {  // all different in both dimensions
        ranks.push_back(rank_of(r, static_cast<std::int64_t>(draw.below(100'000)) * 8 + r));
      }
      std::vector<DecodeRank> reversed(ranks.rbegin(), ranks.rend());
      REQUIRE(placed(name, ranks) + placed(name, reversed) == ranks.size() - 1);
    }
  }
}

TEST_CASE("a decode policy says why it refuses, whatever it is asked") {
  std::vector<DecodeRank> down(3);
  std::vector<DecodeRank> full{rank_of(kBatch, 10), rank_of(kBatch, 10)};
  std::vector<DecodeRank> reserved{rank_of(1, 10)};
  reserved[0].room = {2, 9};
  for (const DecodeRow& row : decode_policies()) {
    CAPTURE(row.name);
    const auto made = row.make(kCost, 1);
    const auto refusal = [&made](std::span<const DecodeRank> ranks, std::int64_t blocks) {
      return made->place(ranks, {.device = {}, .blocks = blocks}, kBatch).refusal;
    };
    CHECK(refusal({}, 1) == DecodeRefusal::kNoRankUp);
    CHECK(refusal(down, 1) == DecodeRefusal::kNoRankUp);
    CHECK(refusal(full, 1) == DecodeRefusal::kNoRoom);
    CHECK(refusal(reserved, 3) == DecodeRefusal::kNoRoom);
    CHECK(refusal(reserved, 100) == DecodeRefusal::kTooLarge);
  }
}

TEST_CASE("lengths and coefficients that cannot be leave every decode policy total") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::vector<DecodeRank> ranks{rank_of(0, 0), rank_of(1, kMost), rank_of(2, -kMost)};
  for (const CostCoefficients& coefficients :
       {CostCoefficients{.row_ps = 0},
        CostCoefficients{.row_ps = 1'000'000'000'000, .pair_fs = 1'000'000}}) {
    for (const DecodeRow& row : decode_policies()) {
      CAPTURE(row.name);
      const auto made = row.make(CostModel(coefficients), 1);
      for (const std::int64_t tokens :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{1'000'000}, kMost, -kMost}) {
        CHECK(made->place(ranks, {.device = {}, .tokens = tokens}, kBatch).choice.has_value());
      }
    }
  }
}

TEST_CASE("a rank that failed a moment ago gets nothing while another could hold the answer") {
  std::vector<DecodeRank> ranks{rank_of(0, 0), rank_of(5, 50'000)};
  ranks[0].avoided = true;
  for (const DecodeRow& row : decode_policies()) {
    CAPTURE(row.name);
    const auto made = row.make(kCost, 1);
    for (int i = 0; i < 20; ++i) {
      CHECK(made->place(ranks, {}, kBatch).choice->rank == 1);
    }
  }
}

TEST_CASE("least_time weighs answers and KV tokens in ns, two_dim looks at the worse of them") {
  // 4 + 20, 6 + 10 and 2 + 25 us.
  const std::array ranks{rank_of(3, 20'000), rank_of(5, 10'000), rank_of(1, 25'000)};
  CHECK(placed("least_time", ranks) == 1);
  CHECK(placed("two_dim", ranks) == 1);
  CHECK(placed("least_requests", ranks) == 2);
  const std::array even{rank_of(5, 6'000), rank_of(0, 10'000)};  // 6 + 6; 1 + 10
  CHECK(placed("least_time", even) == 1);
  CHECK(placed("two_dim", even) == 0);
  CHECK(placed("least_kv", even) == 0);
}

TEST_CASE("among ranks with equally many answers least_requests takes the one with least KV") {
  const std::array ranks{rank_of(2, 900), rank_of(2, 300), rank_of(3, 0)};
  CHECK(placed("least_requests", ranks) == 1);
}

TEST_CASE("round_robin goes on behind the rank that it took, past those without room") {
  std::vector<DecodeRank> ranks{rank_of(0, 0), rank_of(kBatch, 0), rank_of(0, 0)};
  const auto made = policy("round_robin");
  for (const std::size_t expected : {0, 2, 0, 2}) {
    CHECK(made->place(ranks, {}, kBatch).choice->rank == expected);
  }
}

TEST_CASE("two draws are of different ranks, and every rank is drawn") {
  const std::array ranks{rank_of(0, 0), rank_of(1, 10), rank_of(2, 20)};
  const auto better = policy("po2_requests");
  const auto any = policy("random");
  std::array<int, 3> of_better{};
  std::array<int, 3> of_any{};
  for (int i = 0; i < 900; ++i) {
    ++of_better.at(better->place(ranks, {}, kBatch).choice->rank);
    ++of_any.at(any->place(ranks, {}, kBatch).choice->rank);
  }
  CHECK(of_better[2] == 0);   // one of any two is less loaded than the last
  CHECK(of_better[0] > 530);  // two of three pairs have the first: 600, deviation 14
  for (const int count : of_any) {
    CHECK(count > 230);
  }
}
