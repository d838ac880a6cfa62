// How many drafts each run of a step verifies: the part every device shares.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "schemas/units.h"

namespace shoal::kernels {

// Behind which no row of the run can be.
Position room_of(const RowRun& run, Position max_positions);

// By run: as many as it asks for, has confidences of (one span a run, empty where it cannot verify
// any), has room for behind its own rows, and the plan's fill leaves it.
std::vector<std::size_t> verified_drafts(const StepPlan& plan,
                                         Position max_positions,
                                         std::span<const std::span<const float>> confidences);

}  // namespace shoal::kernels
