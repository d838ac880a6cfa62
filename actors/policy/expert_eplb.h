// The published load balancer for experts (EPLB): replicas one by one to the expert with the
// largest load a replica; then replicas, largest first, to the least loaded rank with a free slot.
// In its hierarchical form groups of experts are first packed to nodes the same way. Equal ones go
// to the lower number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/expert_placement.h"

namespace shoal {

struct PackedItem {
  std::int32_t pack = 0;
  std::int32_t place = 0;  // in the pack

  friend bool operator==(const PackedItem&, const PackedItem&) = default;
};

// Where each item goes; packs get equally many.
std::vector<PackedItem> balanced_packing(std::span<const double> weights, std::int32_t packs);

// The expert of each replica: the first replicas in order, then those added, in their order.
std::vector<std::int32_t> replicate_greedily(std::span<const double> weights,
                                             std::int32_t replicas);

SlotExperts eplb_global(const ExpertShape& shape, std::span<const double> weights);

// Experts come in `groups` of neighbours. Both must be multiples of the number of nodes, and the
// ranks too; otherwise, as published, the global form.
SlotExperts eplb_hierarchical(const ExpertShape& shape,
                              std::span<const double> weights,
                              std::int32_t groups);

}  // namespace shoal
