// Placements of experts cross a link whole, and damage is told.
#include <doctest/doctest.h>
#include <memory>
#include <string>

#include "actors/expert_dispatch.h"
#include "actors/wire_messages.h"

namespace shoal {
namespace {

ExpertMapPtr sample() {
  ExpertPlacementMap map{EpochId{7}, {}};
  map.layers.push_back({{.experts = 3, .ranks = 2, .slots = 2, .node_ranks = 1}, {0, 1, 2, -1}});
  map.layers.push_back({{.experts = 1, .ranks = 2, .slots = 1, .node_ranks = 2}, {0, 0}});
  return std::make_shared<const ExpertPlacementMap>(std::move(map));
}

void check_same(const ExpertMapPtr& got) {
  REQUIRE(got != nullptr);
  REQUIRE(got->layers.size() == 2);
  CHECK(got->epoch == EpochId{7});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(got->layers[i].shape == sample()->layers[i].shape);
    CHECK(got->layers[i].expert_at == sample()->layers[i].expert_at);
  }
}

}  // namespace

TEST_CASE("a placement that is to be held arrives as it was") {
  const std::string bytes = wire_codec::encode(HoldExperts{sample(), true}, Instant{});
  const auto got = wire_codec::decode<HoldExperts>(bytes, Instant{});
  REQUIRE(got.has_value());
  CHECK(got->serves);
  check_same(got->map);
}

TEST_CASE("what a shard says that it holds arrives as it was, a refusal and nothing, too") {
  const auto through = [](const ExpertsHeld& message) {
    return wire_codec::decode<ExpertsHeld>(wire_codec::encode(message, Instant{}), Instant{});
  };
  const auto served = through({NodeId{3}, 2, EpochId{8}, sample(), {}});
  REQUIRE(served.has_value());
  CHECK(served->node == NodeId{3});
  CHECK(served->shard == 2);
  CHECK(served->held == EpochId{8});
  CHECK_FALSE(served->refusal.has_value());
  check_same(served->served);
  const auto refused = through({NodeId{1}, 0, EpochId{9}, nullptr, Error{Code::kNoCapacity, "no"}});
  REQUIRE(refused.has_value());
  CHECK(refused->served == nullptr);
  REQUIRE(refused->refusal.has_value());
  CHECK(refused->refusal->code == Code::kNoCapacity);
  CHECK(refused->refusal->message == "no");
}

TEST_CASE("a placement with other slots than it announces, or an expert without one, is corrupt") {
  auto map = *sample();
  map.layers[0].expert_at.push_back(1);
  const auto refused = [&map] {
    const auto bytes = wire_codec::encode(
        HoldExperts{std::make_shared<const ExpertPlacementMap>(map), false}, Instant{});
    return wire_codec::decode<HoldExperts>(bytes, Instant{}).error().code;
  };
  CHECK(refused() == Code::kCorrupt);
  map.layers[0].expert_at = {0, 1, 1, -1};
  CHECK(refused() == Code::kCorrupt);
  map.layers[0].expert_at = {0, 1, 2, 3};
  CHECK(refused() == Code::kCorrupt);
}

}  // namespace shoal
