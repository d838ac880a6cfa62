// Places experts window by window and judges the placements: each is made from the windows before,
// and judged on the window's mean step and on its single steps. Imbalance is the fullest rank's
// tokens by the mean rank's.
#pragma once

#include <cstdint>

#include "actors/policy/expert_plan.h"
#include "actors/policy/expert_split.h"
#include "tests/sim/fleet/expert_layers.h"
#include "tests/sim/fleet/expert_loads.h"
#include "tests/sim/fleet/samples.h"

namespace shoal::sim {

struct ExpertReplaySetup {
  ExpertShape shape;
  const ExpertPlanRow* planner = nullptr;
  const ExpertSplitRow* split = nullptr;
  std::int64_t window_steps = 500;
  double step_s = 0.020;
  std::int32_t react_after = 4;  // steps of a window, if they were worse than:
  double alarm = 1.03;           // on average over layers
};

struct ExpertReplay {
  Samples windows;  // mean steps
  Samples steps;    // where the windows before were alike
  Samples changed;  // steps of windows that began with a change of domain, with the plan before it
  Samples reacted;  // of those, steps after the planner saw some and could plan again
  Samples next;     // mean steps of the window after that
  std::int64_t plans = 0;
  double moved = 0;          // of all slots, in a plan; without the first, that fills empty ranks
  double moved_inside = 0;   // of those, from the same node
  double bytes_an_hour = 0;  // that all ranks take in
};

// Bytes of an expert of a layer of V4.1-Flash.
inline constexpr double kExpertBytes = 18.8e6;

ExpertReplay replay_experts(const ExpertLoads& loads, const ExpertReplaySetup& setup);

// The relative change from the window before, root mean square weighted by load.
double window_change(const ExpertLoads& loads, std::size_t window);

}  // namespace shoal::sim
