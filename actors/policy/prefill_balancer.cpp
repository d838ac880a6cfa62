// Classes by predicted work; the instance with the least predicted finish.
#include "actors/policy/prefill_balancer.h"

#include <algorithm>

namespace shoal {

int prefill_class(Nanos work, const PrefillBounds& bounds) {
  return static_cast<int>(std::upper_bound(bounds.begin(), bounds.end(), work) - bounds.begin());
}

std::optional<PrefillChoice> pick_prefill_instance(std::span<const PrefillInstance> instances,
                                                   Nanos work,
                                                   std::int64_t waiting_limit) {
  std::optional<PrefillChoice> best;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!instances[i].alive || instances[i].waiting >= waiting_limit) {
      continue;
    }
    const Nanos finish = instances[i].backlog + work;
    if (!best || finish < best->finish) {
      best = PrefillChoice{i, finish};
    }
  }
  return best;
}

}  // namespace shoal
