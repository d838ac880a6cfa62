// Least predicted step time among the ranks that fit.
#include "actors/policy/decode_balancer.h"

#include <algorithm>

#include "actors/policy/rendezvous.h"

namespace shoal {

namespace {

std::int64_t counted(std::int64_t number, std::int64_t most) {
  return std::clamp<std::int64_t>(number, 0, most);
}

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

Nanos step_of(const DecodeRank& rank, const CostModel& cost) {
  return cost.decode_step(counted(rank.live, kMostRankAnswers),
                          counted(rank.kv_tokens, kMostRankTokens));
}

Nanos step_with(const DecodeRank& rank, const DecodeNeed& need, const CostModel& cost) {
  return cost.decode_step(
      counted(rank.live, kMostRankAnswers) + 1,
      counted(rank.kv_tokens, kMostRankTokens) + counted(need.tokens, kMostRankTokens));
}

std::pair<std::int64_t, std::int64_t> by_step(const DecodeRank& rank,
                                              const DecodeNeed& need,
                                              const CostModel& cost) {
  return {step_with(rank, need, cost).count(), rank.live};
}

DecodeOpenings::DecodeOpenings(std::span<const DecodeRank> ranks,
                               const DecodeNeed& need,
                               std::int64_t max_batch)
    : ranks_(ranks),
      need_(need),
      max_batch_(max_batch),
      has_other_(std::any_of(ranks.begin(), ranks.end(), [&need](const DecodeRank& rank) {
        return could_take(rank, need) && !rank.avoided;
      })) {}

bool DecodeOpenings::contains(std::size_t index) const {
  const DecodeRank& rank = ranks_[index];
  const bool has_room = need_.blocks == 0 || fits(rank.room, need_.blocks);
  return could_take(rank, need_) && !(has_other_ && rank.avoided) && has_room &&
         rank.live < max_batch_;
}

std::optional<DecodeChoice> pick_least(std::span<const DecodeRank> ranks,
                                       const DecodeNeed& need,
                                       const CostModel& cost,
                                       std::int64_t max_batch,
                                       DecodeScore score) {
  const DecodeOpenings openings(ranks, need, max_batch);
  std::optional<std::size_t> best;
  std::pair<std::int64_t, std::int64_t> least;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!openings.contains(r)) {
      continue;
    }
    const auto here = score(ranks[r], need, cost);
    if (!best || here < least ||
        (here == least && rendezvous_weight(need.tie, r) < rendezvous_weight(need.tie, *best))) {
      best = r;
      least = here;
    }
  }
  return best ? std::optional(DecodeChoice{*best, step_with(ranks[*best], need, cost)})
              : std::nullopt;
}

}  // namespace shoal
