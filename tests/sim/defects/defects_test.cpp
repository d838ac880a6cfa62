// Every planted defect is found by the invariants that may tell it, within kSeeds seeds, and its
// scenario is clean without it.
#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/text_format.h>

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

// On the built-in model, which is slow: fewer answers that a defect is likely to meet.
struct Modelled {
  const char* defect;
  const char* workload;
};

constexpr Modelled kModelled[] = {
    {"basis_moved_by_resume",
     "workload { requests: 12 prompt_min: 130 answer_min: 50 exact_percent: 0 }"},
    {"forced_token_not_replayed", "workload { requests: 12 answer_min: 40 }"},
    {"kv_of_another_request", "workload { prompt_max: 60 answer_max: 10 }"},
    {"token_resampled_after_resume", "workload { requests: 12 answer_min: 40 }"},
};

scenario::Scenario on_guppy(scenario::Scenario scenario, const std::string& workload) {
  REQUIRE(google::protobuf::TextFormat::MergeFromString(workload, &scenario));
  scenario.mutable_device()->set_model("guppy");
  scenario.mutable_device()->set_blocks(32);
  return scenario;
}

Defect& defect_named(std::string_view name) {
  const auto defects = all_defects();
  return **std::find_if(defects.begin(), defects.end(), [name](const Defect* defect) {
    return defect->plan().name == name;
  });
}

// The first of these invariants that told; empty: none did.
std::string found_by(Defect& defect,
                     const std::vector<std::string>& told_by,
                     const scenario::Scenario& scenario,
                     std::uint64_t seed) {
  defect.begin();
  defect_at_work() = &defect;
  const Outcome outcome = run_scenario(scenario, {seed, false, defect.tamper()});
  defect_at_work() = nullptr;
  for (const Violation& violation : outcome.violations) {
    if (std::find(told_by.begin(), told_by.end(), violation.invariant) != told_by.end()) {
      return violation.invariant;
    }
  }
  return {};
}

void check_found(Defect& defect,
                 const std::vector<std::string>& told_by,
                 const scenario::Scenario& scenario) {
  const std::string name = defect.plan().name;
  std::string told;
  std::uint64_t seed = 0;
  while (told.empty() && seed < kSeeds) {
    told = found_by(defect, told_by, scenario, ++seed);
  }
  CHECK_MESSAGE(!told.empty(), name << " was not found in " << kSeeds << " seeds");
  MESSAGE(name << ": seed " << seed << ", " << told);
}

}  // namespace

TEST_CASE("there are as many planted defects as the list of known mistakes asks for") {
  CHECK(all_defects().size() >= 27);
}

TEST_CASE("every planted defect is found") {
  bool any = false;
  for (Defect* defect : all_defects()) {
    SUBCASE(defect->plan().name) {
      any = true;
      check_found(*defect, defect->plan().told_by, scenario_of(*defect));
    }
  }
  CHECK_MESSAGE(any, "no defect has that name; a new one needs a new build of defects_test");
}

TEST_CASE("defects that change tokens are found where a real model computes them") {
  for (const Modelled& modelled : kModelled) {
    SUBCASE(modelled.defect) {
      Defect& defect = defect_named(modelled.defect);
      check_found(defect, {"true_tokens"}, on_guppy(scenario_of(defect), modelled.workload));
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
