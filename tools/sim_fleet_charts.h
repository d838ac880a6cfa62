// Charts of runs of a fleet.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "schemas/result.h"
#include "tests/sim/fleet/fleet.h"

namespace shoal::tools {

struct FleetOutcome {
  std::string choice;  // ROLE:ROW, or a row of prefill
  sim::FleetFigures figures;
  double wall_s = 0;
};

// Lines of all runs, maps of the first, as SVG files in a folder that is made.
Result<void> write_fleet_charts(std::vector<FleetOutcome>& runs,
                                const std::filesystem::path& folder);

}  // namespace shoal::tools
