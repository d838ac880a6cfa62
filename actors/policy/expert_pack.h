// Plans replicas and their ranks together, for a split that follows each step (expert_split.h).
//
// Such a split evens out whatever ranks can pass on: so every rank gets some of the load that has
// several places, and replicas join ranks that are not joined yet, even indirectly. Replicas go one
// by one to the expert with the largest load a replica; they are placed first, each on a rank with
// the fewest replicated experts, then the others, largest first, on the least loaded rank; swaps
// between the fullest rank and others follow.
#pragma once

#include <cstdint>
#include <span>

#include "actors/policy/expert_placement.h"
#include "actors/policy/expert_risk.h"

namespace shoal {

// `loads` of each expert, none negative, in any unit.
SlotExperts pack_experts(const ExpertShape& shape, std::span<const double> loads);

// A placement of less risk by few changes: slots of the least needed replicas go to experts that
// have too few, and ranks that stay too full, however tokens are split, swap an expert with one
// that does not. With `inside_nodes` nothing is brought from another node.
SlotExperts refine_experts(const ExpertShape& shape,
                           std::span<const std::int32_t> expert_at,
                           const ExpertRisk& risk,
                           bool inside_nodes);

}  // namespace shoal
