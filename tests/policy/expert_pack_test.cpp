// Placements for a split by step: everything served, load shared everywhere, ranks joined.
#include "actors/policy/expert_pack.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <set>

#include "tests/policy/expert_cases.h"

using namespace shoal;

TEST_CASE("every expert is served, and no rank has one twice") {
  for (const ExpertShape& shape : kExpertShapes) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(shape.experts);
      const SlotExperts expert_at = pack_experts(shape, drawn_loads(shape.experts, seed));
      REQUIRE(serves_all(shape, expert_at));
      for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
        const auto first = expert_at.begin() + rank * shape.slots;
        std::multiset<std::int32_t> own(first, first + shape.slots);
        own.erase(kEmptySlot);
        CHECK(std::set<std::int32_t>(own.begin(), own.end()).size() == own.size());
      }
    }
  }
}

TEST_CASE("loads that are all zero, or all on one expert, can be packed") {
  constexpr ExpertShape kShape{.experts = 48, .ranks = 12, .slots = 5};
  std::vector<double> loads(48, 0);
  CHECK(serves_all(kShape, pack_experts(kShape, loads)));
  loads[5] = 1e18;
  const SlotExperts expert_at = pack_experts(kShape, loads);
  CHECK(serves_all(kShape, expert_at));
  CHECK(std::count(expert_at.begin(), expert_at.end(), 5) == 12);
}

TEST_CASE("with a spare slot a rank, every rank has load that another could take") {
  constexpr ExpertShape kShape{.experts = 384, .ranks = 64, .slots = 7};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SlotExperts expert_at = pack_experts(kShape, drawn_loads(384, seed));
    const ReplicaIndex replicas(kShape, expert_at);
    for (std::int32_t rank = 0; rank < kShape.ranks; ++rank) {
      bool shares = false;
      for (std::int32_t slot = rank * 7; slot < rank * 7 + 7; ++slot) {
        shares |= replicas.slots_of(expert_at[slot]).size() > 1;
      }
      CHECK(shares);
    }
  }
}

TEST_CASE("replicas join all ranks, as far as there are enough") {
  constexpr ExpertShape kShape{.experts = 384, .ranks = 64, .slots = 7};
  const SlotExperts expert_at = pack_experts(kShape, drawn_loads(384, 1));
  const ReplicaIndex replicas(kShape, expert_at);
  std::vector<std::int32_t> group(kShape.ranks);
  std::iota(group.begin(), group.end(), 0);
  for (std::int32_t expert = 0; expert < kShape.experts; ++expert) {
    for (const std::int32_t slot : replicas.slots_of(expert)) {
      const std::int32_t from = group[slot / 7];
      const std::int32_t to = group[replicas.slots_of(expert).front() / 7];
      std::replace(group.begin(), group.end(), from, to);
    }
  }
  CHECK(std::set<std::int32_t>(group.begin(), group.end()).size() <= 4);
}

TEST_CASE("without spare slots the hottest expert gets the company of the coolest") {
  constexpr ExpertShape kShape{.experts = 6, .ranks = 3, .slots = 2};
  const SlotExperts expert_at = pack_experts(kShape, std::vector<double>{10, 5, 5, 4, 4, 1});
  for (int slot = 0; slot < 6; slot += 2) {
    const auto [a, b] = std::minmax(expert_at[slot], expert_at[slot + 1]);
    CHECK((a != 0 || b == 5));
  }
}
