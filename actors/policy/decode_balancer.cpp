// Least predicted step time among the ranks that fit.
#include "actors/policy/decode_balancer.h"

#include <tuple>

namespace shoal {

std::optional<DecodeChoice> pick_decode_rank(std::span<const DecodeRank> ranks,
                                             const DecodeNeed& need,
                                             const CostModel& cost,
                                             std::int64_t max_batch) {
  std::optional<DecodeChoice> best;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const DecodeRank& rank = ranks[r];
    const bool fits = rank.alive && (!need.device || rank.device == *need.device) &&
                      rank.live < max_batch && rank.free_blocks >= need.blocks;
    if (!fits) {
      continue;
    }
    const Nanos step = cost.decode_step(rank.live + 1, rank.kv_tokens + need.tokens);
    if (!best || std::tuple(step, rank.live) < std::tuple(best->step, ranks[best->rank].live)) {
      best = DecodeChoice{r, step};
    }
  }
  return best;
}

}  // namespace shoal
