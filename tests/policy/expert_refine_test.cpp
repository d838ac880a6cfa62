// Few changes to a placement that serves the loads badly.
#include <algorithm>
#include <doctest/doctest.h>

#include "actors/policy/expert_pack.h"
#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

constexpr ExpertShape kShape{.experts = 384, .ranks = 64, .slots = 7};

}  // namespace

TEST_CASE("refining never makes the risk larger, and keeps every expert served") {
  for (const ExpertShape& shape : kExpertShapes) {
    for (const bool inside : {true, false}) {
      CAPTURE(shape.experts);
      const SlotExperts before = pack_experts(shape, drawn_loads(shape.experts, 1));
      const ExpertRisk risk(shape, drawn_loads(shape.experts, 2), 0.05, 1);
      const SlotExperts after = refine_experts(shape, before, risk, inside);
      CHECK(serves_all(shape, after));
      CHECK(risk.of(after) <= risk.of(before) + 1e-9);
    }
  }
}

TEST_CASE("inside nodes means that nothing comes from another one") {
  const SlotExperts before = pack_experts(kShape, drawn_loads(384, 1));
  const ExpertRisk risk(kShape, drawn_loads(384, 2), 0.05, 1);
  const SlotExperts inside = refine_experts(kShape, before, risk, true);
  const ExpertMoves moves = moves_between(kShape, before, inside);
  CHECK(moves.slots > 0);
  CHECK(moves.across_nodes == 0);
  CHECK(risk.of(refine_experts(kShape, before, risk, false)) <= risk.of(inside));
}

TEST_CASE("a placement that is level stays as it is") {
  const auto loads = drawn_loads(384, 1);
  const SlotExperts before = pack_experts(kShape, loads);
  const ExpertRisk risk(kShape, loads, 0, 1);
  CHECK(refine_experts(kShape, before, risk, false) == before);
}

TEST_CASE("an expert that became hot takes a slot of one that cooled") {
  auto loads = drawn_loads(384, 1);
  const SlotExperts before = pack_experts(kShape, loads);
  const auto cold =
      static_cast<std::int32_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
  loads[cold] = 600;
  const ExpertRisk risk(kShape, loads, 0, 1);
  const SlotExperts after = refine_experts(kShape, before, risk, false);
  CHECK(std::count(after.begin(), after.end(), cold) > 1);
  CHECK(moves_between(kShape, before, after).slots < 100);
}
