// Every planted defect is found by the invariants that may tell it, within kSeeds seeds, and its
// scenario is clean without it.
#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <string>

#include "tests/sim/defects/defect.h"
#include "tests/sim/scenario.h"

using namespace shoal;
using namespace shoal::sim;

namespace {

constexpr std::uint64_t kSeeds = 500;

scenario::Scenario scenario_of(const Defect& defect) {
  auto scenario = parse_scenario(defect.plan().scenario, defect.plan().name);
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  return *std::move(scenario);
}

// The invariant that told; empty: none did.
std::string found_by(Defect& defect, const scenario::Scenario& scenario, std::uint64_t seed) {
  defect.begin();
  defect_at_work() = &defect;
  const Outcome outcome = run_scenario(scenario, {seed, false, defect.tamper()});
  defect_at_work() = nullptr;
  for (const Violation& violation : outcome.violations) {
    const auto& told_by = defect.plan().told_by;
    if (std::find(told_by.begin(), told_by.end(), violation.invariant) != told_by.end()) {
      return violation.invariant;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("there are as many planted defects as the list of known mistakes asks for") {
  CHECK(all_defects().size() >= 20);
}

TEST_CASE("every planted defect is found") {
  for (Defect* defect : all_defects()) {
    const std::string name = defect->plan().name;
    SUBCASE(name.c_str()) {
      const scenario::Scenario scenario = scenario_of(*defect);
      std::string told;
      std::uint64_t seed = 0;
      while (told.empty() && seed < kSeeds) {
        told = found_by(*defect, scenario, ++seed);
      }
      CHECK_MESSAGE(!told.empty(), name << " was not found in " << kSeeds << " seeds");
      MESSAGE(name << ": seed " << seed << ", " << told);
    }
  }
}

TEST_CASE("the scenarios of the defects are clean without them") {
  for (const Defect* defect : all_defects()) {
    CAPTURE(defect->plan().name);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      for (const Violation& violation :
           run_scenario(scenario_of(*defect), {seed, false, {}}).violations) {
        FAIL_CHECK(violation.invariant << ": " << violation.what);
      }
    }
  }
}
