// What is published of two fleets beside what the planner says of them: one of 2026, for which
// decode and prefill rates, ratio, size, reads, stored bytes and income are known or follow, and
// one day of 2025. A row is good within its tolerance; otherwise it says why it is not.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "actors/policy/fleet_inputs.h"

namespace shoal {

struct PlanCheck {
  std::string_view quantity{};
  std::string_view unit{};
  double target = 0;
  double ours = 0;
  double tolerance = 0;    // share of the target; where `at_most`: none
  bool at_most = false;    // the target is a limit
  std::string_view why{};  // the difference; of rows that are off
  bool good() const;
};

// `today` serves the big day, `earlier` is an H800 as in the day of 2025.
std::vector<PlanCheck> check_against_published(const PlanMachine& today,
                                               const PlanMachine& earlier);

// Published figures that only a simulated fleet can give.
std::span<const std::string_view> left_to_simulation();

// The big day: load, lengths and promise.
PlanWorkload published_day();
PlanSlo published_slo();

}  // namespace shoal
