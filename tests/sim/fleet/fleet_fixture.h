// Small fleets and loads that tests of fleets share.
#pragma once

#include <chrono>
#include <doctest/doctest.h>
#include <string>

#include "tests/sim/fleet/fleet.h"

namespace shoal::sim {

inline FleetTrace read_played(const std::string& file) {
  const auto trace = read_trace(std::string(SHOAL_TRACES) + "/" + file, 0);
  REQUIRE(trace.has_value());
  return fleet_trace(*trace, Nanos{0}, std::chrono::hours(1'000));
}

inline fleet::Fleet small_fleet() {
  fleet::Fleet fleet;
  fleet.mutable_prefill()->set_instances(4);
  fleet.mutable_decode()->set_groups(2);
  fleet.mutable_decode()->set_ranks(8);
  return fleet;
}

}  // namespace shoal::sim
