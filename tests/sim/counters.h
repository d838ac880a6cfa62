// States that must be reached sometimes, told from the event log: a scenario that never gets there
// proves nothing about them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shoal::sim {

std::vector<std::string> counter_names();

// Adds what the events show to the counters of the same names.
void count_events(const std::vector<std::string>& events,
                  std::map<std::string, std::int64_t>& counters);

}  // namespace shoal::sim
