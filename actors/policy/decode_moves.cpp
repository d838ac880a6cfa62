// The best move from the busiest rank to the least busy one.
#include "actors/policy/decode_moves.h"

#include <algorithm>

namespace shoal {

namespace {

std::int64_t tokens_of(const DecodeAnswer& answer) {
  return std::clamp<std::int64_t>(answer.tokens, 0, kMostRankTokens);
}

Nanos step_after(DecodeRank rank,
                 std::int64_t answers,
                 std::int64_t tokens,
                 const CostModel& cost) {
  rank.live = std::clamp<std::int64_t>(rank.live, 0, kMostRankAnswers) + answers;
  rank.kv_tokens = std::clamp<std::int64_t>(rank.kv_tokens, 0, kMostRankTokens) + tokens;
  return step_of(rank, cost);
}

struct Ends {
  std::size_t busiest = 0;
  std::size_t idlest = 0;
};

// None: fewer than two ranks are up, or none of them has a place.
std::optional<Ends> ends(std::span<const DecodeRank> ranks,
                         const CostModel& cost,
                         std::int64_t max_batch) {
  std::optional<std::size_t> busiest;
  std::optional<std::size_t> idlest;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const DecodeRank& rank = ranks[r];
    if (!rank.alive) {
      continue;
    }
    if (!busiest || step_of(rank, cost) > step_of(ranks[*busiest], cost)) {
      busiest = r;
    }
    const bool is_open = !rank.avoided && rank.live < max_batch && rank.room.sequences >= 1;
    if (is_open && (!idlest || step_of(rank, cost) < step_of(ranks[*idlest], cost))) {
      idlest = r;
    }
  }
  return busiest && idlest && *busiest != *idlest ? std::optional(Ends{*busiest, *idlest})
                                                  : std::nullopt;
}

Nanos copy_time(const DecodeAnswer& answer, const DecodeMoveCost& move) {
  return move.fixed + Nanos{tokens_of(answer) * move.token_ps / 1'000};
}

}  // namespace

std::optional<DecodeMove> pick_move(std::span<const DecodeRank> ranks,
                                    std::span<const DecodeAnswer> answers,
                                    const CostModel& cost,
                                    std::int64_t max_batch,
                                    const DecodeMoveCost& move) {
  const auto between = ends(ranks, cost, max_batch);
  if (!between) {
    return {};
  }
  const DecodeRank& from = ranks[between->busiest];
  const DecodeRank& to = ranks[between->idlest];
  const Nanos now = step_of(from, cost);
  std::optional<DecodeMove> best;
  Nanos most{0};
  for (std::size_t a = 0; a < answers.size(); ++a) {
    const DecodeAnswer& answer = answers[a];
    if (answer.rank != between->busiest || !fits(to.room, answer.blocks)) {
      continue;
    }
    const std::int64_t tokens = tokens_of(answer);
    const Nanos after =
        std::max(step_after(from, -1, -tokens, cost), step_after(to, 1, tokens, cost));
    const DecodeMove candidate{a, between->idlest, now - after, copy_time(answer, move)};
    const Nanos pays = candidate.gain * std::clamp<std::int64_t>(answer.steps, 0, move.steps_most) -
                       candidate.cost;
    if (pays > most) {
      best = candidate;
      most = pays;
    }
  }
  return best;
}

}  // namespace shoal
