// Least predicted step time among the ranks that fit.
#include "actors/policy/decode_balancer.h"

#include <tuple>

#include "actors/policy/rendezvous.h"

namespace shoal {

std::optional<DecodeChoice> pick_decode_rank(std::span<const DecodeRank> ranks,
                                             const DecodeNeed& need,
                                             const CostModel& cost,
                                             std::int64_t max_batch) {
  std::optional<DecodeChoice> best;
  std::tuple<Nanos, std::int64_t, std::uint64_t> least;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const DecodeRank& rank = ranks[r];
    const bool has_room = need.blocks == 0 || fits(rank.room, need.blocks);
    const bool is_right = !need.device || rank.device == *need.device;
    if (!rank.alive || !is_right || !has_room || rank.live >= max_batch) {
      continue;
    }
    const Nanos step = cost.decode_step(rank.live + 1, rank.kv_tokens + need.tokens);
    const std::tuple order(step, rank.live, rendezvous_weight(need.tie, r));
    if (!best || order < least) {
      best = DecodeChoice{r, step};
      least = order;
    }
  }
  return best;
}

}  // namespace shoal
