// How long a device without arithmetic takes: the one cost function of simulated and real time.
#pragma once

#include <chrono>

#include "kernels/backend.h"
#include "schemas/units.h"

namespace shoal::kernels {

// A fixed part a step, and parts for each of its rows and for each sequence that it makes drafts
// for; copies cost the same whatever they carry.
struct StepCost {
  Nanos step{std::chrono::milliseconds(2)};
  Nanos row{std::chrono::microseconds(50)};
  Nanos copy{std::chrono::milliseconds(1)};
  Nanos draft{0};
};

// Of a step that has begun.
inline Nanos step_time(const StepCost& cost, const Step& step) {
  return cost.step + cost.row * step.rows + cost.draft * step.drafted;
}

}  // namespace shoal::kernels
