// Every planner serves every expert; ours moves only what is worth it.
#include "actors/policy/expert_plan.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

#include "actors/policy/expert_eplb.h"
#include "actors/policy/expert_risk.h"
#include "actors/policy/expert_split.h"
#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

std::vector<std::int64_t> window_of(const std::vector<double>& loads) {
  std::vector<std::int64_t> counts;
  for (const double load : loads) {
    counts.push_back(static_cast<std::int64_t>(load * 1'000));
  }
  return counts;
}

const ExpertPlanRow& ours() {
  return expert_planners().front();
}

constexpr ExpertShape kShape{.experts = 384, .ranks = 64, .slots = 7};

// After a window of `before`, and then one of `now`.
ExpertPlan replanned(const std::vector<double>& before,
                     const std::vector<double>& now,
                     const ExpertPlanCosts& costs) {
  const auto planner = ours().make({.shape = kShape, .costs = costs});
  planner->saw_window(window_of(before));
  const SlotExperts current = planner->plan({}).front().expert_at;
  planner->saw_window(window_of(now));
  return planner->plan(std::span(&current, 1)).front();
}

}  // namespace

TEST_CASE("every planner serves every expert of every layer, the same every time") {
  for (const ExpertPlanRow& row : expert_planners()) {
    for (const ExpertShape& shape : kExpertShapes) {
      CAPTURE(row.name);
      CAPTURE(shape.experts);
      const auto planner = row.make({.shape = shape, .layers = 2});
      auto counts = window_of(drawn_loads(shape.experts, 1));
      const auto second = window_of(drawn_loads(shape.experts, 2));
      counts.insert(counts.end(), second.begin(), second.end());
      planner->saw_window(counts);
      const auto plans = planner->plan({});
      REQUIRE(plans.size() == 2);
      for (std::size_t layer = 0; layer < 2; ++layer) {
        CHECK(serves_all(shape, plans[layer].expert_at));
        CHECK(plans[layer].expert_at == planner->plan({})[layer].expert_at);
      }
    }
  }
}

TEST_CASE("every planner plans before it saw anything, and after windows of nothing or too much") {
  for (const ExpertPlanRow& row : expert_planners()) {
    CAPTURE(row.name);
    const auto planner = row.make({.shape = kShape});
    CHECK(serves_all(kShape, planner->plan({}).front().expert_at));
    planner->saw_window(std::vector<std::int64_t>(384, 0));
    planner->saw_step(std::vector<std::int64_t>(384, 0));
    CHECK(serves_all(kShape, planner->plan({}).front().expert_at));
    std::vector<std::int64_t> one(384, 0);
    one[17] = std::int64_t{1} << 62;
    planner->saw_window(one);
    const ExpertPlan plan = planner->plan({}).front();
    CHECK(serves_all(kShape, plan.expert_at));
    const SlotExperts current = plan.expert_at;
    CHECK(serves_all(kShape, planner->plan(std::span(&current, 1)).front().expert_at));
  }
}

TEST_CASE("every planner starts anew from a placement of another shape") {
  const SlotExperts other(12, 0);
  for (const ExpertPlanRow& row : expert_planners()) {
    CAPTURE(row.name);
    const auto planner = row.make({.shape = kShape});
    const ExpertPlan plan = planner->plan(std::span(&other, 1)).front();
    CHECK(serves_all(kShape, plan.expert_at));
    CHECK(plan.moves.slots == 0);
  }
}

TEST_CASE("nothing is moved while loads stay as they are") {
  const auto loads = drawn_loads(384, 1);
  const ExpertPlan plan = replanned(loads, loads, {});
  CHECK(plan.change == ExpertChange::kKept);
  CHECK(plan.moves.slots == 0);
  CHECK(plan.imbalance == plan.imbalance_before);
}

TEST_CASE("when all loads change, moves pay") {
  const ExpertPlan plan = replanned(drawn_loads(384, 1), drawn_loads(384, 2), {});
  CHECK(plan.change != ExpertChange::kKept);
  CHECK(plan.moves.slots > 0);
  CHECK(plan.imbalance < 0.9 * plan.imbalance_before);
}

TEST_CASE("nothing is moved that takes longer than it saves") {
  const ExpertPlan plan =
      replanned(drawn_loads(384, 1), drawn_loads(384, 2), {.layer_ns = 1'000, .steps = 1});
  CHECK(plan.change == ExpertChange::kKept);
}

TEST_CASE("nothing comes from another node where ranks are nearly level") {
  const ExpertPlan plan =
      replanned(drawn_loads(384, 1), drawn_loads(384, 2), {.steps = 1e9, .across_above = 10});
  CHECK(plan.change == ExpertChange::kRefinedInside);
  CHECK(plan.moves.across_nodes == 0);
  CHECK(plan.imbalance < plan.imbalance_before);
}

TEST_CASE("nothing comes from another node that saves less than its price") {
  const auto moved = [](double across_ns) {
    return replanned(drawn_loads(384, 1), drawn_loads(384, 2), {.across_ns = across_ns}).moves;
  };
  CHECK(moved(376'000).across_nodes > 0);
  CHECK(moved(1e12).across_nodes == 0);
  CHECK(moved(1e12).slots > 0);
}

TEST_CASE("by forecast and price the published placement is never better by 0.2 %") {
  const ExpertPlanCosts costs{.across_above = 0};
  const auto ns = [&costs](double imbalance, const ExpertMoves& moves) {
    const double across = moves.slots == 0 ? 0
                                           : static_cast<double>(moves.across_nodes) /
                                                 static_cast<double>(moves.slots);
    return imbalance * costs.layer_ns * costs.steps +
           static_cast<double>(moves.most_of_rank) *
               (across * costs.across_ns + (1 - across) * costs.inside_ns);
  };
  for (const ExpertShape& shape : kExpertShapes) {
    for (std::uint64_t seed = 1; seed < 9; ++seed) {
      CAPTURE(shape.experts);
      CAPTURE(seed);
      const auto planner = ours().make({.shape = shape, .costs = costs, .seed = seed});
      ExpertForecast forecast(1, shape.experts);
      SlotExperts current;
      for (std::uint64_t window = 0; window < 4; ++window) {
        const auto counts = window_of(drawn_loads(shape.experts, 10 * seed + window));
        planner->saw_window(counts);
        forecast.saw_window(counts);
        const std::vector<double> loads = forecast.loads();
        const ExpertRisk risk(
            shape, loads, std::hypot(forecast.error(), forecast.step_spread()), seed);
        SlotExperts published = eplb_global(shape, loads);
        ExpertMoves moves;
        if (!current.empty()) {
          published = keep_slots(shape, current, published, false);
          moves = moves_between(shape, current, published);
        }
        const ExpertPlan plan = planner->plan(std::span(&current, 1)).front();
        CHECK(ns(risk.of(plan.expert_at), plan.moves) <=
              ns(risk.of(published) + 0.002, moves) + costs.inside_ns);
        current = plan.expert_at;
      }
    }
  }
}

TEST_CASE("the alarm sounds after steps that were too uneven for long, then waits again") {
  ExpertAlarm alarm(1.10, 3);
  CHECK_FALSE(alarm.saw(1.2));
  CHECK_FALSE(alarm.saw(1.2));
  CHECK(alarm.saw(1.2));
  CHECK_FALSE(alarm.saw(1.2));
  for (int step = 0; step < 1'000; ++step) {
    CHECK_FALSE(alarm.saw(1.05));
  }
}
