// What must hold after every run, one checker each.
#pragma once

#include <vector>

#include "tests/sim/scenario.h"
#include "tests/sim/workload.h"

namespace shoal::sim {

struct Finished {
  World& world;
  const Workload& workload;
  const kernels::SimModel& model;
  bool all_over = false;     // in the time given
  bool whole_again = false;  // likewise, after the faults
  bool memory_free = false;  // likewise, after the last answer
};

std::vector<Violation> check_invariants(const Finished& run);

}  // namespace shoal::sim
