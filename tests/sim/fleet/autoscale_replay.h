// Recorded request rates of a service, and the machines that an autoscaler gives it: what they cost
// and for how long they were too few. Rates between two rows lie on a line; every minute's requests
// are drawn around them. A unit that is asked for costs at once and takes work after provisioning.
#pragma once

#include <cstdint>

#include "actors/policy/autoscale.h"
#include "tests/sim/fleet/rates_file.h"

namespace shoal::sim {

struct AutoscaleLoad {
  double peak_units = 40;  // that the highest rate of the file needs at the target
  ScaleTiming timing{};
  PoolShape shape{};  // its most: what the peak needs
  std::uint64_t seed = 1;
};

struct AutoscaleFigures {
  double unit_hours = 0;
  // Of those that know the future, and have at every minute the fewest that meet the target: as
  // soon as they want; or too few as often as the row was, in the minutes that cost most; or never
  // too few, but with the same delay.
  double oracle_hours = 0;
  double equal_hours = 0;
  double delayed_hours = 0;
  double violating = 0;  // share of the time in which ranks were busier than the limit
  double excess = 0;     // mean over the time of the work above the limit, over the work
  std::int64_t changes = 0;
};

AutoscaleFigures replay_autoscale(const AutoscaleRow& row,
                                  const ServiceRates& service,
                                  AutoscaleLoad load);

}  // namespace shoal::sim
