// What moves between placements, and how few of it after renaming.
#include "actors/policy/expert_placement.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <string>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

constexpr ExpertShape kFour{.experts = 4, .ranks = 4, .slots = 2, .node_ranks = 2};

}  // namespace

TEST_CASE("a shape without ranks, without experts or with too few slots says why") {
  CHECK(unplannable(kFour).empty());
  CHECK_FALSE(unplannable({.experts = 4, .ranks = 0, .slots = 2}).empty());
  CHECK_FALSE(unplannable({.experts = 0, .ranks = 4, .slots = 2}).empty());
  CHECK_FALSE(unplannable({.experts = 4, .ranks = 4, .slots = 2, .node_ranks = 0}).empty());
  CHECK_FALSE(unplannable({.experts = 4, .ranks = 1 << 19, .slots = 1 << 19}).empty());
  CHECK(std::string(unplannable({.experts = 9, .ranks = 4, .slots = 2})).find("add ranks") !=
        std::string::npos);
}

TEST_CASE("a placement serves all experts or not") {
  CHECK(serves_all(kFour, SlotExperts{0, 1, 2, 3, 0, 1, kEmptySlot, kEmptySlot}));
  CHECK_FALSE(serves_all(kFour, SlotExperts{0, 1, 2, 2, 0, 1, kEmptySlot, kEmptySlot}));
  CHECK_FALSE(serves_all(kFour, SlotExperts{0, 1, 2, 3, 0, 1, 4, kEmptySlot}));
  CHECK_FALSE(serves_all(kFour, SlotExperts{0, 1, 2, 3}));
}

TEST_CASE("what a rank has already is not moved, and what its node has comes from there") {
  const SlotExperts from{0, 1, 2, 3, 0, 1, 2, 3};
  CHECK(moves_between(kFour, from, from).slots == 0);
  const ExpertMoves swapped = moves_between(kFour, from, SlotExperts{1, 0, 3, 2, 0, 1, 2, 3});
  CHECK(swapped.slots == 0);
  const ExpertMoves moves = moves_between(kFour, from, SlotExperts{2, 3, 2, 3, 0, 1, 2, 3});
  CHECK(moves.slots == 2);
  CHECK(moves.across_nodes == 0);
  CHECK(moves.most_of_rank == 2);
  const SlotExperts apart{0, 1, 0, 1, 2, 3, 2, 3};
  CHECK(moves_between(kFour, apart, SlotExperts{0, 2, 0, 1, 2, 3, 2, 3}).across_nodes == 1);
}

TEST_CASE("renamed ranks move nothing, unless their node must stay") {
  const SlotExperts from{0, 1, 1, 2, 2, 3, 3, 0};
  const SlotExperts turned{3, 2, 0, 3, 1, 0, 2, 1};
  CHECK(keep_slots(kFour, from, turned, false) == from);
  const SlotExperts inside = keep_slots(kFour, from, turned, true);
  CHECK(moves_between(kFour, from, inside).slots > 0);
  const SlotExperts crossed{1, 2, 0, 1, 3, 0, 2, 3};
  CHECK(keep_slots(kFour, from, crossed, true) == from);
}

TEST_CASE("renaming keeps the experts of each rank together, and never moves more") {
  constexpr ExpertShape kShape{.experts = 48, .ranks = 12, .slots = 5};
  Draw draw(7);
  SlotExperts from;
  for (int slot = 0; slot < kShape.all_slots(); ++slot) {
    from.push_back(static_cast<std::int32_t>(draw.below(kShape.experts)));
  }
  for (int round = 0; round < 20; ++round) {
    SlotExperts to = from;
    for (int i = 0; i < 10; ++i) {
      std::swap(to[draw.below(to.size())], to[draw.below(to.size())]);
    }
    std::rotate(to.begin(), to.begin() + 5 * static_cast<std::ptrdiff_t>(draw.below(12)), to.end());
    const SlotExperts kept = keep_slots(kShape, from, to, false);
    CHECK(moves_between(kShape, from, kept).slots <= 20);
    CHECK(std::is_permutation(kept.begin(), kept.end(), to.begin()));
  }
}

TEST_CASE("no other names of ranks would move less") {
  constexpr ExpertShape kShape{.experts = 12, .ranks = 5, .slots = 4};
  Draw draw(3);
  for (int round = 0; round < 50; ++round) {
    SlotExperts from;
    SlotExperts to;
    for (int slot = 0; slot < kShape.all_slots(); ++slot) {
      from.push_back(static_cast<std::int32_t>(draw.below(12)));
      to.push_back(static_cast<std::int32_t>(draw.below(12)));
    }
    std::int64_t least = 100;
    std::vector<std::int32_t> names{0, 1, 2, 3, 4};
    do {
      SlotExperts renamed(to.size());
      for (std::int32_t rank = 0; rank < 5; ++rank) {
        std::copy_n(to.begin() + rank * 4, 4, renamed.begin() + names[rank] * 4);
      }
      least = std::min(least, moves_between(kShape, from, renamed).slots);
    } while (std::next_permutation(names.begin(), names.end()));
    CHECK(moves_between(kShape, from, keep_slots(kShape, from, to, false)).slots == least);
  }
}
