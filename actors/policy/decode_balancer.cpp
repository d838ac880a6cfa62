// Least predicted step time among the ranks that fit.
#include "actors/policy/decode_balancer.h"

#include <algorithm>
#include <tuple>

#include "actors/policy/rendezvous.h"

namespace shoal {

namespace {

bool could_take(const DecodeRank& rank, const DecodeNeed& need) {
  const bool is_right = !need.device || rank.device == *need.device;
  return rank.alive && is_right && need.blocks <= std::max(rank.blocks, rank.room.blocks);
}

}  // namespace

bool fits_nowhere(std::span<const DecodeRank> ranks, const DecodeNeed& need) {
  const auto is_up = [](const DecodeRank& rank) { return rank.alive; };
  const auto takes = [&need](const DecodeRank& rank) { return could_take(rank, need); };
  return !need.device && std::any_of(ranks.begin(), ranks.end(), is_up) &&
         std::none_of(ranks.begin(), ranks.end(), takes);
}

std::optional<DecodeChoice> pick_decode_rank(std::span<const DecodeRank> ranks,
                                             const DecodeNeed& need,
                                             const CostModel& cost,
                                             std::int64_t max_batch) {
  const bool has_other = std::any_of(ranks.begin(), ranks.end(), [&need](const DecodeRank& rank) {
    return could_take(rank, need) && !rank.avoided;
  });
  std::optional<DecodeChoice> best;
  std::tuple<Nanos, std::int64_t, std::uint64_t> least;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const DecodeRank& rank = ranks[r];
    const bool has_room = need.blocks == 0 || fits(rank.room, need.blocks);
    if (!could_take(rank, need) || (has_other && rank.avoided) || !has_room ||
        rank.live >= max_batch) {
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
