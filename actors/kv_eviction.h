// What a block store forgets when it is full: policies as stores take them.
#pragma once

#include "actors/policy/cost_model.h"
#include "actors/policy/kv_worth.h"
#include "transport/block_index.h"

namespace shoal {

// By what is learned of the store's own blocks (policy/kv_worth.h). For one store alone, which
// calls it under its lock.
transport::BlockPolicy evict_by_worth(const CostModel& cost, const StoreRoom& room);

// What was used longest ago goes first.
transport::BlockPolicy evict_by_last_use();

}  // namespace shoal
