// The machines and loads of `shoal plan` from their files: one of deploy/ by its name, or any file.
#pragma once

#include <string>

#include "actors/policy/fleet_economics.h"
#include "actors/policy/fleet_inputs.h"
#include "schemas/result.h"

namespace shoal::tools {

struct PlannedLoad {
  PlanWorkload workload;
  PlanSlo slo;
  TokenPrices prices;
};

// kMisconfigured names the file, the field and the nearest known name of either.
Result<PlanMachine> read_machine(const std::string& name_or_file);
Result<PlannedLoad> read_workload(const std::string& name_or_file);

}  // namespace shoal::tools
