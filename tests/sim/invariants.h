// What must hold after every run, one checker each.
#pragma once

#include <vector>

#include "tests/sim/violation.h"
#include "tests/sim/workload.h"

namespace shoal::sim {

struct Finished {
  World& world;
  const Workload& workload;
  const DeviceModel& model;
  bool whole_again = false;  // after the faults, in the time given
  bool settled = false;      // likewise: everything that was open is over
  bool memory_free = false;  // likewise: after the last answer
};

std::vector<Violation> check_invariants(const Finished& run);

}  // namespace shoal::sim
