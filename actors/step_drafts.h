// Drafts between a decode group and its ranks: which of them a rank verifies, and what became of
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "actors/interfaces.h"
#include "actors/policy/draft_control.h"
#include "actors/policy/verify_plan.h"
#include "actors/policy/verify_temperature.h"
#include "kernels/backend.h"

namespace shoal {

// Shares a rank's part of the plan out between its drafts, by the row, when the device knows their
// confidences.
std::shared_ptr<const kernels::DraftFill> draft_fill(const VerifyRow& row,
                                                     std::shared_ptr<const VerifyPlan> sizes,
                                                     std::uint32_t rank,
                                                     const Temperatures& temperatures);

// For the control.
RankDrafts rank_drafts(const StepTally& tally,
                       bool feeds_drafts,
                       Nanos compute,
                       const Temperatures& temperatures);

}  // namespace shoal
