// Placements of experts cross a link whole, and damage is told.
#include <doctest/doctest.h>
#include <memory>
#include <string>

#include "actors/expert_dispatch.h"
#include "actors/expert_report.h"
#include "actors/wire_messages.h"

namespace shoal {
namespace {

ExpertMapPtr sample() {
  ExpertPlacementMap map{EpochId{7}, {}};
  map.layers.push_back(
      {{.experts = 3, .ranks = 2, .slots = 2, .node_ranks = 1}, {0, 1, 2, -1}, {0.5, 3, 0}});
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
  const std::string bytes = wire_codec::encode(HoldExperts{sample(), true, NodeId{4}}, Instant{});
  const auto got = wire_codec::decode<HoldExperts>(bytes, Instant{});
  REQUIRE(got.has_value());
  CHECK(got->serves);
  CHECK(got->source == NodeId{4});
  check_same(got->map);
  CHECK(got->map->layers[0].loads == std::vector<double>{0.5, 3, 0});
  CHECK(got->map->layers[1].loads.empty());
}

TEST_CASE("what a shard says that it holds arrives as it was, a refusal and nothing, too") {
  const auto through = [](const ExpertsHeld& message) {
    return wire_codec::decode<ExpertsHeld>(wire_codec::encode(message, Instant{}), Instant{});
  };
  const auto served = through({.node = NodeId{3},
                               .shard = 2,
                               .held = EpochId{8},
                               .served = EpochId{7},
                               .before = EpochId{5},
                               .use = {12, Bytes{4096}},
                               .map = sample()});
  REQUIRE(served.has_value());
  CHECK(served->node == NodeId{3});
  CHECK(served->shard == 2);
  CHECK(served->held == EpochId{8});
  CHECK_FALSE(served->refusal.has_value());
  CHECK(served->served == EpochId{7});
  CHECK(served->before == EpochId{5});
  CHECK(served->use.experts == 12);
  CHECK(served->use.weights == Bytes{4096});
  check_same(served->map);
  const auto refused = through({.node = NodeId{1},
                                .shard = 0,
                                .held = EpochId{9},
                                .served = EpochId{},
                                .before = EpochId{},
                                .refusal = Error{Code::kNoCapacity, "no"}});
  REQUIRE(refused.has_value());
  CHECK(refused->served == EpochId{});
  CHECK(refused->map == nullptr);
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
  map = *sample();
  map.layers[0].loads = {1, 2};
  CHECK(refused() == Code::kCorrupt);
  map.layers[0].loads = {1, 2, -1};
  CHECK(refused() == Code::kCorrupt);
}

TEST_CASE("what a source was given arrives as it was counted, and damage is told") {
  ExpertReport report{.node = NodeId{2},
                      .epoch = EpochId{7},
                      .map = sample(),
                      .settled = true,
                      .traffic = {{5, {1, 2, 3}, {4, 2}}, {5, {6}, {3, 3}}},
                      .expert = Bytes{77},
                      .plan = 9,
                      .plan_state = ExpertPlanState::kFailed,
                      .reason = "why"};
  const auto through = [&report] {
    return wire_codec::decode<ExpertLoads>(
        wire_codec::encode(ExpertLoads{std::make_shared<const ExpertReport>(report)}, Instant{}),
        Instant{});
  };
  const auto got = through();
  REQUIRE(got.has_value());
  CHECK(got->report->node == NodeId{2});
  CHECK(got->report->settled);
  CHECK_FALSE(got->report->whole);
  check_same(got->report->map);
  REQUIRE(got->report->traffic.size() == 2);
  CHECK(got->report->traffic[0].exchanges == 5);
  CHECK(got->report->traffic[0].experts == std::vector<std::int64_t>{1, 2, 3});
  CHECK(got->report->traffic[1].ranks == std::vector<std::int64_t>{3, 3});
  CHECK(got->report->expert == Bytes{77});
  CHECK(got->report->plan == 9);
  CHECK(got->report->plan_state == ExpertPlanState::kFailed);
  CHECK(got->report->reason == "why");
  report.traffic[0].experts[1] = -1;
  CHECK(through().error().code == Code::kCorrupt);
  report.traffic.clear();
  report.epoch = EpochId{8};
  CHECK(through().error().code == Code::kCorrupt);
}

TEST_CASE("a placement that a source is to bring about arrives as it was planned") {
  ExpertOrder order{.plan = 3, .base = EpochId{7}, .layers = sample()->layers, .limit = Nanos{5}};
  const auto through = [&order] {
    return wire_codec::decode<PlaceExperts>(
        wire_codec::encode(PlaceExperts{std::make_shared<const ExpertOrder>(order)}, Instant{}),
        Instant{});
  };
  const auto got = through();
  REQUIRE(got.has_value());
  CHECK(got->order->plan == 3);
  CHECK(got->order->base == EpochId{7});
  CHECK(got->order->limit == Nanos{5});
  REQUIRE(got->order->layers.size() == 2);
  CHECK(got->order->layers[0].expert_at == order.layers[0].expert_at);
  order.limit = Nanos{-1};
  CHECK(through().error().code == Code::kCorrupt);
  order.limit = Nanos{5};
  order.layers[1].expert_at = {0, 2};
  CHECK(through().error().code == Code::kCorrupt);
}

}  // namespace shoal
