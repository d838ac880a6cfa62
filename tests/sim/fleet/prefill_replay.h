// Recorded requests through a fleet of prefill instances whose ranks step together: when each first
// token came. The policies and the group's schedule are those of production.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "actors/policy/prefill_policies.h"
#include "actors/policy/prefill_schedule.h"
#include "tests/sim/fleet/prefill_load.h"
#include "tests/sim/fleet/samples.h"

namespace shoal::sim {

inline constexpr int kFleetRanks = 8;  // of an instance

struct PrefillTrial {
  int instances = 8;
  double utilisation = 0.95;  // work of all requests over the ranks' time until the last arrival
  const PrefillPolicyRow* policy = nullptr;
  std::uint64_t seed = 1;
  Nanos stale{0};              // how old reports are; what the chooser itself sent is known at once
  double error = 0;            // of predicted work: sigma of a lognormal factor a request
  std::int64_t cold_rows = 0;  // of a prompt that every instance is given at the beginning; 0: none
  PrefillSchedule::Limits limits;  // of leaders that place requests themselves
};

struct PrefillFigures {
  Samples ttft_ms;
  Samples shortest_ms;        // of the class with the least work
  double imbalance = 0;       // over all steps: the longest ranks' time / the mean ranks' time
  double busy_imbalance = 0;  // the same over steps that began with work for every rank
  double makespan_s = 0;
  std::int64_t steps = 0;
};

// The list, again and again until every instance has as many requests as one of eight has of one
// list; arrivals scaled to the utilisation.
PrefillFigures replay_prefill(std::span<const PrefillRequest> requests, const PrefillTrial& trial);

}  // namespace shoal::sim
