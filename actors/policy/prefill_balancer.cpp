// Classes by predicted work; the instance with the least predicted finish.
#include "actors/policy/prefill_balancer.h"

#include <algorithm>
#include <utility>

#include "actors/policy/rendezvous.h"

namespace shoal {

int prefill_class(Nanos work, const PrefillBounds& bounds) {
  return static_cast<int>(std::upper_bound(bounds.begin(), bounds.end(), work) - bounds.begin());
}

bool fits_nowhere(std::span<const PrefillInstance> instances) {
  const auto is_up = [](const PrefillInstance& i) { return i.alive; };
  const auto holds = [](const PrefillInstance& i) { return i.alive && i.holds; };
  return std::any_of(instances.begin(), instances.end(), is_up) &&
         std::none_of(instances.begin(), instances.end(), holds);
}

std::optional<PrefillChoice> pick_prefill_instance(std::span<const PrefillInstance> instances,
                                                   Nanos work,
                                                   std::int64_t waiting_limit,
                                                   std::uint64_t tie) {
  const auto can = [](const PrefillInstance& instance) { return instance.alive && instance.holds; };
  const bool has_other = std::any_of(
      instances.begin(), instances.end(), [&can](const auto& i) { return can(i) && !i.avoided; });
  std::optional<PrefillChoice> best;
  std::pair<Nanos, std::uint64_t> least;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!can(instances[i]) || (has_other && instances[i].avoided) ||
        instances[i].waiting >= waiting_limit) {
      continue;
    }
    const std::pair order(instances[i].backlog + work, rendezvous_weight(tie, i));
    if (!best || order < least) {
      best = PrefillChoice{i, order.first};
      least = order;
    }
  }
  return best;
}

}  // namespace shoal
