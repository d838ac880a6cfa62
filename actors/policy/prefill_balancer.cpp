// Classes by predicted work; first tokens by how high work fills the ranks.
#include "actors/policy/prefill_balancer.h"

#include <algorithm>


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

namespace {

// How high `pool` fills ranks that begin at min(work, most).
Nanos water_level(std::span<const PrefillRankLoad> ranks, Nanos pool, Nanos most) {
  Nanos level = most;
  while (true) {
    Nanos sum = pool;
    std::int64_t below = 0;
    for (const PrefillRankLoad& rank : ranks) {
      if (const Nanos begun = std::min(rank.work, most); begun <= level) {
        sum += begun;
        ++below;
      }
    }
    const Nanos next = below == 0 ? pool : sum / below;
    if (next >= level) {
      return next;
    }
    level = next;
  }
}

}  // namespace

Nanos predict_first_token(const PrefillInstance& instance, const PrefillNeed& need) {
  const auto own = static_cast<std::size_t>(need.length_class);
  const Nanos share = instance.queued[own] + need.work;
  Nanos pool = instance.queued[own];
  Nanos longest{0};
  for (std::size_t k = 0; k < instance.queued.size(); ++k) {
    pool += k == own ? Nanos{0} : std::min(instance.queued[k], share);
    longest = std::max(longest, instance.queued[k]);
  }
  for (const PrefillRankLoad& rank : instance.ranks) {
    longest = std::max(longest, rank.work);
  }
  const Nanos begin = water_level(instance.ranks, pool, share);
  return instance.step_left + begin + std::max(need.work, std::min(longest, need.quota));
}

bool has_unavoided(std::span<const PrefillInstance> instances) {
  return std::any_of(instances.begin(), instances.end(), [](const PrefillInstance& i) {
    return i.alive && i.holds && !i.avoided;
  });
}

bool may_take(const PrefillInstance& instance, const PrefillNeed& need, bool has_other) {
  return instance.alive && instance.holds && !(has_other && instance.avoided) &&
         instance.waiting < need.waiting_limit;
}

}  // namespace shoal
