// How long a device without arithmetic takes: the one cost function of simulated and real time.
#pragma once

#include <chrono>

#include "kernels/backend.h"
#include "schemas/units.h"

namespace shoal::kernels {

// A fixed part a step and a part for each of its rows; copies cost the same whatever they carry.
struct StepCost {
  Nanos step{std::chrono::milliseconds(2)};
  Nanos row{std::chrono::microseconds(50)};
  Nanos copy{std::chrono::milliseconds(1)};
};

inline Nanos step_time(const StepCost& cost, const StepPlan& plan) {
  Nanos time = cost.step;
  for (const RowRun& run : plan.runs) {
    time += cost.row * run.rows();
  }
  return time;
}

}  // namespace shoal::kernels
