// One state behind the two calls of a policy.
#include "actors/kv_eviction.h"

#include <memory>

namespace shoal {

transport::BlockPolicy evict_by_worth(const CostModel& cost, const StoreRoom& room) {
  const auto state = std::make_shared<KvWorth>(cost, room);
  return {.worth = [state](const BlockUse& use, WallMillis now) { return state->worth(use, now); },
          .seen = [state](std::uint64_t name,
                          const BlockUse& use,
                          bool is_written) { return state->seen(name, use, is_written); }};
}

transport::BlockPolicy evict_by_last_use() {
  return {.worth = [](const BlockUse& use, WallMillis) { return use.last_use; }, .seen = {}};
}

}  // namespace shoal
