// What comes in, in device time: the unit in which the autoscaler counts nodes.
#pragma once

#include <array>
#include <cstdint>

#include "actors/policy/cost_model.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

// Roles whose nodes an autoscaler counts.
inline constexpr int kScaledPrefill = 0;
inline constexpr int kScaledDecode = 1;
inline constexpr int kScaledRoles = 2;

// Device time that was asked for at a node since its process began, by role: prefill where it was
// accepted, decode where it was done.
struct ServiceDemand {
  std::array<std::int64_t, kScaledRoles> ns{};
};

// Device time of one token of an answer on a decode rank as full as it may be: the most answers, up
// to `most`, whose step takes no longer than `target`; one where not even that fits. `context`: KV
// tokens of an answer, on average.
Nanos token_work(const CostModel& cost, Position context, std::int64_t most, Nanos target);

}  // namespace shoal
