// The imbalance that a placement will have.
#include "actors/policy/expert_risk.h"

#include <doctest/doctest.h>

#include "tests/policy/expert_cases.h"

using namespace shoal;

namespace {

constexpr ExpertShape kShape{.experts = 4, .ranks = 2, .slots = 3};
const SlotExperts kAlone{0, 1, kEmptySlot, 2, 3, kEmptySlot};
const SlotExperts kShared{0, 1, 2, 2, 3, 0};

}  // namespace

TEST_CASE("without any deviation it is the forecast's imbalance") {
  const ExpertRisk risk(kShape, std::vector<double>{30, 30, 20, 20}, 0, 1);
  CHECK(risk.of(kAlone) == doctest::Approx(1.2).epsilon(0.001));
  CHECK(risk.of(kShared) == doctest::Approx(1).epsilon(0.001));
}

TEST_CASE("deviations cost a placement that cannot pass load on, the same each time") {
  const std::vector<double> loads(4, 25);
  const ExpertRisk risk(kShape, loads, 0.1, 1);
  CHECK(risk.of(kAlone) > 1.005);
  CHECK(risk.of(kShared) < 1.003);  // 0.2 % counts as level
  CHECK(risk.of(kAlone) == ExpertRisk(kShape, loads, 0.1, 1).of(kAlone));
}

TEST_CASE("no load is no risk") {
  CHECK(ExpertRisk(kShape, std::vector<double>(4, 0), 0.1, 1).of(kAlone) == 1);
}
