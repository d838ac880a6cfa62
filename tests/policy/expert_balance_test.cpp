// A model's layers are planned together, each as its own loads say.
#include "actors/policy/expert_balance.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <utility>

#include "actors/policy/expert_eplb.h"
#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

using Rows = std::vector<std::vector<std::int64_t>>;

constexpr ExpertShape kBackbone{.experts = 16, .ranks = 4, .slots = 5, .node_ranks = 4};
constexpr ExpertShape kDraft{.experts = 8, .ranks = 4, .slots = 3, .node_ranks = 4};

const ExpertPlanRow& ours() {
  return expert_planners().front();
}

// Two layers of the backbone around one of a draft.
const std::vector<ExpertShape> kShapes = {kBackbone, kDraft, kBackbone};

std::vector<SlotExperts> even(const std::vector<ExpertShape>& shapes) {
  std::vector<SlotExperts> placed;
  for (const ExpertShape& shape : shapes) {
    placed.push_back(
        eplb_global(shape, std::vector<double>(static_cast<std::size_t>(shape.experts), 1)));
  }
  return placed;
}

std::vector<std::int64_t> rows_of(std::int32_t experts, std::size_t busiest) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts), 100);
  rows[busiest] = 1'000;
  return rows;
}

std::vector<SlotExperts> placements(const ExpertBalancePlan& plan) {
  std::vector<SlotExperts> placed;
  for (const ExpertPlan& layer : plan.layers) {
    placed.push_back(layer.expert_at);
  }
  return placed;
}

std::int64_t replicas(const SlotExperts& expert_at, std::int32_t expert) {
  return std::ranges::count(expert_at, expert);
}

}  // namespace

TEST_CASE("layers of different shapes are planned each by its own loads") {
  ExpertBalance balance(ours(), kShapes, {}, 1);
  const auto before = even(kShapes);
  const Rows rows = {rows_of(16, 3), rows_of(8, 6), rows_of(16, 12)};
  const ExpertBalancePlan plan = balance.plan(rows, 500, before);
  REQUIRE(plan.layers.size() == 3);
  CHECK(plan.changed == 3);
  CHECK(replicas(plan.layers[0].expert_at, 3) >= 2);
  CHECK(replicas(plan.layers[1].expert_at, 6) >= 2);
  CHECK(replicas(plan.layers[2].expert_at, 12) >= 2);
  CHECK(plan.imbalance < plan.imbalance_before);
  ExpertMoves moves;
  for (std::size_t layer = 0; layer < 3; ++layer) {
    CHECK(serves_all(kShapes[layer], plan.layers[layer].expert_at));
    moves.slots += moves_between(kShapes[layer], before[layer], plan.layers[layer].expert_at).slots;
  }
  CHECK(plan.moves.slots == moves.slots);
}

TEST_CASE("a layer that got nothing stays as it is, and so does all when nothing came") {
  ExpertBalance balance(ours(), kShapes, {}, 1);
  const auto before = even(kShapes);
  const Rows rows = {rows_of(16, 3), std::vector<std::int64_t>(8), rows_of(16, 12)};
  const ExpertBalancePlan plan = balance.plan(rows, 500, before);
  CHECK(plan.changed == 2);
  CHECK(plan.layers[1].change == ExpertChange::kKept);
  CHECK(plan.layers[1].expert_at == before[1]);
  const Rows none = {
      std::vector<std::int64_t>(16), std::vector<std::int64_t>(8), std::vector<std::int64_t>(16)};
  const auto after = placements(plan);
  const ExpertBalancePlan still = balance.plan(none, 1, after);
  CHECK(still.changed == 0);
  CHECK(placements(still) == after);
}

TEST_CASE("what a few steps would not earn back does not move") {
  const auto before = even(kShapes);
  const Rows rows = {rows_of(16, 3), rows_of(8, 6), rows_of(16, 12)};
  ExpertBalance idle(ours(), kShapes, {.layer_ns = 1'000, .inside_ns = 100'000}, 1);
  CHECK(idle.plan(rows, 3, before).changed == 0);
  CHECK(idle.plan(rows, 100'000, before).changed == 3);
}

TEST_CASE("every row of the planners comes to rest under a load that stays") {
  for (const ExpertPlanRow& row : expert_planners()) {
    CAPTURE(row.name);
    ExpertBalance balance(row, kShapes, {}, 1);
    auto placed = even(kShapes);
    const Rows rows = {rows_of(16, 3), rows_of(8, 6), rows_of(16, 12)};
    for (int window = 0; window < 4; ++window) {
      const ExpertBalancePlan plan = balance.plan(rows, 500, placed);
      placed = placements(plan);
      for (std::size_t layer = 0; layer < 3; ++layer) {
        CHECK(serves_all(kShapes[layer], placed[layer]));
      }
      if (window > 1) {
        CHECK(plan.changed == 0);
        CHECK(plan.moves.slots == 0);
      }
    }
  }
}

TEST_CASE("any loads and shapes are planned the same way twice, and all are served") {
  for (const ExpertPlanRow& row : expert_planners()) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      ExpertBalance one(row, kExpertShapes, {}, seed);
      ExpertBalance other(row, kExpertShapes, {}, seed);
      auto placed = even(kExpertShapes);
      for (std::uint64_t window = 0; window < 3; ++window) {
        Rows rows;
        for (const ExpertShape& shape : kExpertShapes) {
          const auto loads = drawn_loads(shape.experts, seed * 10 + window);
          rows.emplace_back(loads.begin(), loads.end());
        }
        const auto planned = placements(one.plan(rows, 1'000, placed));
        CHECK(planned == placements(other.plan(rows, 1'000, placed)));
        for (std::size_t layer = 0; layer < planned.size(); ++layer) {
          CHECK(serves_all(kExpertShapes[layer], planned[layer]));
        }
        placed = planned;
      }
    }
  }
}

TEST_CASE("the fullest by the mean is 1 where there is nothing, and the count where one has all") {
  CHECK(fullest_by_mean({}) == 1);
  CHECK(fullest_by_mean(std::vector<std::int64_t>{0, 0, 0}) == 1);
  CHECK(fullest_by_mean(std::vector<std::int64_t>{5, 5, 5}) == 1);
  CHECK(fullest_by_mean(std::vector<std::int64_t>{0, 9, 0}) == 3);
}
