// Each way to place an answer: least of some score, in turn, or drawn.
#include "actors/policy/decode_policies.h"

#include <algorithm>
#include <array>
#include <vector>

#include "actors/policy/draw.h"

namespace shoal {

namespace {

using Score = std::pair<std::int64_t, std::int64_t>;

Score by_requests(const DecodeRank& rank, const DecodeNeed& /*need*/, const CostModel& /*cost*/) {
  return {rank.live, rank.kv_tokens};
}

Score by_kv(const DecodeRank& rank, const DecodeNeed& /*need*/, const CostModel& /*cost*/) {
  return {rank.kv_tokens, rank.live};
}

// The worse of the two dimensions, each in ns: what max((n + 1) / mean n, w (K + L) / mean K) with
// w the ratio of their costs says without its divisions.
Score by_two_dimensions(const DecodeRank& rank, const DecodeNeed& need, const CostModel& cost) {
  const Nanos rows = step_of({.live = rank.live + 1, .room = {}}, cost);
  const Nanos kv = step_with(rank, need, cost) - rows + cost.decode_step(0, 0);
  return {std::max(rows, kv).count(), rank.kv_tokens};
}

DecodeRefusal why_not(std::span<const DecodeRank> ranks, const DecodeNeed& need) {
  const auto is_up = [](const DecodeRank& rank) { return rank.alive; };
  if (std::none_of(ranks.begin(), ranks.end(), is_up)) {
    return DecodeRefusal::kNoRankUp;
  }
  return fits_nowhere(ranks, need) ? DecodeRefusal::kTooLarge : DecodeRefusal::kNoRoom;
}

DecodePlacement placement(std::optional<DecodeChoice> choice,
                          std::span<const DecodeRank> ranks,
                          const DecodeNeed& need) {
  return {choice, choice ? DecodeRefusal::kNone : why_not(ranks, need)};
}

class Least final : public DecodePolicy {
 public:
  Least(const CostModel& cost, DecodeScore score) : DecodePolicy(cost), score_(score) {}

  DecodePlacement place(std::span<const DecodeRank> ranks,
                        const DecodeNeed& need,
                        std::int64_t max_batch) override {
    return placement(pick_least(ranks, need, cost_, max_batch, score_), ranks, need);
  }

 private:
  DecodeScore score_;
};

class RoundRobin final : public DecodePolicy {
 public:
  explicit RoundRobin(const CostModel& cost) : DecodePolicy(cost) {}

  DecodePlacement place(std::span<const DecodeRank> ranks,
                        const DecodeNeed& need,
                        std::int64_t max_batch) override {
    const DecodeOpenings openings(ranks, need, max_batch);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const std::size_t r = (next_ + i) % ranks.size();
      if (openings.contains(r)) {
        next_ = r + 1;
        return {DecodeChoice{r, step_with(ranks[r], need, cost_)}};
      }
    }
    return placement({}, ranks, need);
  }

 private:
  std::size_t next_ = 0;
};

// The best of `samples` different ranks, drawn among those that can take it.
class Sampled final : public DecodePolicy {
 public:
  Sampled(const CostModel& cost, std::uint64_t seed, std::size_t samples, DecodeScore score)
      : DecodePolicy(cost),
        draw_(seed),
        samples_(samples),
        score_(score) {}

  DecodePlacement place(std::span<const DecodeRank> ranks,
                        const DecodeNeed& need,
                        std::int64_t max_batch) override {
    const DecodeOpenings openings(ranks, need, max_batch);
    open_.clear();
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (openings.contains(r)) {
        open_.push_back(r);
      }
    }
    std::optional<std::size_t> best;
    for (std::size_t s = 0; s < std::min(samples_, open_.size()); ++s) {
      std::swap(open_[s], open_[s + draw_.below(open_.size() - s)]);
      const std::size_t r = open_[s];
      if (!best || score_(ranks[r], need, cost_) < score_(ranks[*best], need, cost_)) {
        best = r;
      }
    }
    return best ? DecodePlacement{DecodeChoice{*best, step_with(ranks[*best], need, cost_)}}
                : placement({}, ranks, need);
  }

 private:
  Draw draw_;
  std::size_t samples_;
  DecodeScore score_;
  std::vector<std::size_t> open_;  // of one placement
};

template <DecodeScore score>
std::unique_ptr<DecodePolicy> least(const CostModel& cost, std::uint64_t /*seed*/) {
  return std::make_unique<Least>(cost, score);
}

template <std::size_t samples, DecodeScore score>
std::unique_ptr<DecodePolicy> sampled(const CostModel& cost, std::uint64_t seed) {
  return std::make_unique<Sampled>(cost, seed, samples, score);
}

std::unique_ptr<DecodePolicy> round_robin(const CostModel& cost, std::uint64_t /*seed*/) {
  return std::make_unique<RoundRobin>(cost);
}

constexpr std::array<DecodeRow, 9> kRows = {{
    {"least_time_moves",
     "least predicted step time; running answers move where it pays",
     true,
     least<by_step>},
    {"least_time", "least predicted step time", false, least<by_step>},
    {"two_dim",
     "least of the worse dimension: answers or KV tokens, both in ns",
     false,
     least<by_two_dimensions>},
    {"least_requests", "fewest answers, then fewest KV tokens", false, least<by_requests>},
    {"least_kv", "fewest KV tokens", false, least<by_kv>},
    {"po2_time", "the better of two drawn ranks by step time", false, sampled<2, by_step>},
    {"po2_requests", "the better of two drawn ranks by answers", false, sampled<2, by_requests>},
    {"random", "a drawn rank", false, sampled<1, by_step>},
    {"round_robin", "one after the other", false, round_robin},
}};

}  // namespace

std::span<const DecodeRow> decode_policies() {
  return kRows;
}

}  // namespace shoal
