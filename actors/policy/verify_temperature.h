// Makes a draft head's confidences true: one temperature a place, fitted from left to right so that
// the chance of a whole run of drafts is what is then observed (sequential temperature scaling:
// least expected calibration error of the product, earlier places fixed). A planner that trusts an
// overconfident head verifies drafts that fail.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "actors/policy/verify_plan.h"

namespace shoal {

// 16 / temperature of each place: powers of the odds that need no libm. 16 leaves them as they are.
using Temperatures = std::array<int, kMostDrafts>;

inline constexpr Temperatures kUntempered{16, 16, 16, 16, 16};

struct VerifyOutcome {
  Confidences confidence{};  // as the head said
  int verified = 0;          // drafts
  int accepted = 0;          // of them
};

float tempered(float confidence, int temperature);

// A place that was verified less than 200 times stays as the head says.
Temperatures fit_temperatures(std::span<const VerifyOutcome> outcomes);

// Mean distance between the chance of a run of drafts and how often it was accepted, over 15 bins
// of the chance and all verified runs; 0 without any.
double calibration_error(std::span<const VerifyOutcome> outcomes, const Temperatures& temperatures);

}  // namespace shoal
