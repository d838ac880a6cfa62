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

// Before that, one odd step could shut the door.
constexpr std::int64_t kStepsToTell = 64;

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
  const Nanos work = instance.work.value_or(need.work);
  const Nanos share = instance.queued[own] + work;
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
  return instance.step_left + begin + std::max(work, std::min(longest, need.quota));
}

std::optional<Nanos> price_apart(Nanos own, Nanos all, std::int64_t steps) {
  const bool is_apart = own > all + all / 4 || own < all - all / 4;
  return steps >= kStepsToTell && is_apart ? std::optional(own) : std::nullopt;
}

std::optional<Nanos> latest_first_token(std::span<const PrefillInstance> instances,
                                        const PrefillNeed& need,
                                        Nanos ahead) {
  std::optional<Nanos> best;
  for (PrefillInstance instance : instances) {
    if (!instance.alive || !instance.holds) {
      continue;
    }
    if (instance.steps < kStepsToTell) {
      return std::nullopt;
    }
    instance.queued[static_cast<std::size_t>(need.length_class)] += ahead;
    const Nanos expected = predict_first_token(instance, need);
    // Through millionths, not the product: an hour times a thousand would not fit.
    const Nanos latest = expected + expected / 1'000'000 * instance.late_ppm;
    best = std::min(best.value_or(latest), latest);
  }
  return best;
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
