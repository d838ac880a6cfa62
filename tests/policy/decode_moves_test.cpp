// Which running answer changes its rank, and when it is left where it is.
#include "actors/policy/decode_moves.h"

#include <doctest/doctest.h>
#include <limits>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

constexpr std::int64_t kBatch = 16;
// A row costs as much as 1,000 tokens of KV: 1 us.
const CostModel kCost({.step = Nanos{0}, .row_ps = 1'000'000, .pair_fs = 1'000'000});
// 10 us, and 1 ns a token.
const DecodeMoveCost kMove{.fixed = Nanos{10'000}, .token_ps = 1'000};

DecodeRank rank_of(std::int64_t live, std::int64_t kv_tokens) {
  return {.alive = true, .live = live, .kv_tokens = kv_tokens, .room = {9, 9}, .blocks = 99};
}

Nanos longer(const DecodeRank& a, const DecodeRank& b) {
  return std::max(step_of(a, kCost), step_of(b, kCost));
}

}  // namespace

TEST_CASE("the answer that evens the longest and the shortest step best moves between them") {
  // 4 + 20, 3 + 10 and 2 + 2 us: half of the difference is 10.
  const std::vector<DecodeRank> ranks{rank_of(4, 20'000), rank_of(3, 10'000), rank_of(2, 2'000)};
  const std::vector<DecodeAnswer> answers{{.rank = 0, .tokens = 2'000, .steps = 50},
                                          {.rank = 0, .tokens = 9'000, .steps = 50},
                                          {.rank = 0, .tokens = 4'500, .steps = 50},
                                          {.rank = 1, .tokens = 9'000, .steps = 50}};
  const auto move = pick_move(ranks, answers, kCost, kBatch, kMove);
  REQUIRE(move.has_value());
  CHECK(move->answer == 1);
  CHECK(move->to == 2);
  CHECK(move->gain == Nanos{10'000});
  CHECK(move->cost == Nanos{19'000});
}

TEST_CASE("no answer moves that ends before its move has paid") {
  const std::vector<DecodeRank> ranks{rank_of(4, 20'000), rank_of(2, 2'000)};
  const auto moves = [&ranks](std::int64_t steps) {
    const std::vector<DecodeAnswer> answers{{.rank = 0, .tokens = 9'000, .steps = steps}};
    return pick_move(ranks, answers, kCost, kBatch, kMove).has_value();
  };
  CHECK_FALSE(moves(0));
  CHECK_FALSE(moves(1));  // 10 us shorter, 19 us to copy
  CHECK(moves(2));
}

TEST_CASE("an answer that would only make the other rank the slowest stays") {
  const std::vector<DecodeRank> ranks{rank_of(1, 20'000), rank_of(1, 15'000)};
  const std::vector<DecodeAnswer> answers{{.rank = 0, .tokens = 20'000, .steps = 50}};
  CHECK_FALSE(pick_move(ranks, answers, kCost, kBatch, kMove).has_value());
}

TEST_CASE("an answer moves only to a rank that is up, trusted, and has its worst case free") {
  const std::vector<DecodeAnswer> answers{{.rank = 0, .tokens = 5'000, .steps = 50, .blocks = 5}};
  const auto moves = [&answers](const DecodeRank& to) {
    const std::vector<DecodeRank> ranks{rank_of(4, 20'000), to};
    return pick_move(ranks, answers, kCost, kBatch, kMove).has_value();
  };
  DecodeRank to = rank_of(0, 0);
  CHECK(moves(to));
  to.room = {4, 9};
  CHECK_FALSE(moves(to));
  to.room = {9, 0};
  CHECK_FALSE(moves(to));
  to = rank_of(kBatch, 0);
  CHECK_FALSE(moves(to));
  to = rank_of(0, 0);
  to.alive = false;
  CHECK_FALSE(moves(to));
  to = rank_of(0, 0);
  to.avoided = true;
  CHECK_FALSE(moves(to));
}

TEST_CASE("whatever the load, a move shortens the longer of two steps and overfills nothing") {
  Draw draw(5);
  int moved = 0;
  for (int round = 0; round < 1'000; ++round) {
    std::vector<DecodeRank> ranks;
    std::vector<DecodeAnswer> answers;
    for (std::size_t r = 0; r < draw.below(6); ++r) {
      ranks.push_back(
          {.alive = draw.below(6) != 0, .room = {static_cast<std::int64_t>(draw.below(9)), 2}});
      for (std::uint64_t more = draw.below(20); more > 0; --more) {
        answers.push_back({.rank = r,
                           .tokens = static_cast<std::int64_t>(draw.below(20'000)),
                           .steps = static_cast<std::int64_t>(draw.below(100)),
                           .blocks = static_cast<std::int64_t>(draw.below(9))});
        ++ranks[r].live;
        ranks[r].kv_tokens += answers.back().tokens;
      }
    }
    const auto move = pick_move(ranks, answers, kCost, kBatch, kMove);
    if (!move) {
      continue;
    }
    ++moved;
    const DecodeAnswer& answer = answers.at(move->answer);
    DecodeRank& from = ranks.at(answer.rank);
    DecodeRank& to = ranks.at(move->to);
    const Nanos before = longer(from, to);
    REQUIRE(to.alive);
    REQUIRE(to.live < kBatch);
    REQUIRE(fits(to.room, answer.blocks));
    --from.live;
    ++to.live;
    from.kv_tokens -= answer.tokens;
    to.kv_tokens += answer.tokens;
    REQUIRE(before - longer(from, to) == move->gain);
    REQUIRE(move->gain * answer.steps > move->cost);
  }
  CHECK(moved > 300);
}

TEST_CASE("without ranks, answers or sane lengths nothing moves and nothing breaks") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_FALSE(pick_move({}, {}, kCost, kBatch, kMove).has_value());
  const std::vector<DecodeRank> ranks{rank_of(1, kMost), rank_of(1, -kMost), rank_of(0, 0)};
  const std::vector<DecodeAnswer> answers{{.rank = 0, .tokens = kMost / 4, .steps = kMost},
                                          {.rank = 9, .tokens = 1, .steps = -1},
                                          {.rank = 0, .tokens = -5, .steps = 5}};
  CHECK_FALSE(pick_move(ranks, answers, kCost, kBatch, kMove).has_value());
}
