// Tries each size of the fullest rank; at each, drafts join from the likeliest down, and the best
// ratio of expected tokens to time is taken. For one size that is all there is to choose: which
// chance is the last worth verifying.
#include "actors/policy/verify_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "actors/policy/verify_baselines.h"
#include "schemas/check.h"

namespace shoal {
namespace {

constexpr int kMostLevels = 32;  // that are tried
// Another size is a change of the device's graph; below half a percent it is not worth one.
constexpr double kWorthAChange = 1.005;

std::int64_t drafts_in(const DraftHistogram& rank) {
  std::int64_t sum = 0;
  for (const std::uint32_t count : rank.counts) {
    sum += count;
  }
  return sum;
}

// A level for the fullest rank, and the buckets that are verified: those below `buckets`.
struct Choice {
  std::int64_t level = 0;
  int buckets = 0;
  std::int64_t expected = 0;
  Nanos time{0};

  bool yields_more(const Choice& other, double factor = 1) const {
    const auto mine = static_cast<double>(expected) * static_cast<double>(other.time.count());
    return mine > factor * static_cast<double>(other.expected) * static_cast<double>(time.count());
  }
};

// The drafts of all ranks that fit below a level which only rises. A rank's likeliest come first,
// so that each is added once.
class LevelSweep {
 public:
  explicit LevelSweep(std::span<const DraftHistogram> ranks) : ranks_(ranks) {
    for (const DraftHistogram& rank : ranks) {
      base_.push_back(rank.requests + rank.owed);
      added_.push_back({.level = base_.back()});
      lowest_ = std::max(lowest_, base_.back());
      highest_ = std::max(highest_, base_.back() + drafts_in(rank));
      tokens_ += base_.back();
      expected_ += rank.requests * kCertain + rank.owed_chance;
    }
  }

  std::int64_t lowest() const { return lowest_; }

  std::int64_t highest() const { return highest_; }

  Choice best_at(std::int64_t level, const VerifyCosts& costs) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      raise(r, level);
    }
    const Nanos fixed = costs.fixed + costs.rank.at(level);
    Choice best{level, 0, expected_, fixed + costs.group.at(tokens_)};
    Choice now = best;
    std::int64_t tokens = tokens_;
    for (int b = 0; b < DraftHistogram::kBuckets; ++b) {
      const auto bucket = static_cast<std::size_t>(b);
      if (counts_[bucket] == 0) {
        continue;
      }
      tokens += counts_[bucket];
      now.expected += counts_[bucket] * kBucketChances[bucket];
      now.time = fixed + costs.group.at(tokens);
      now.buckets = b + 1;
      best = now.yields_more(best) ? now : best;
    }
    return best;
  }

  std::int64_t tokens_of(std::size_t rank, const Choice& choice) const {
    std::int64_t tokens = base_[rank];
    for (int b = 0; b < choice.buckets; ++b) {
      tokens += ranks_[rank].counts[static_cast<std::size_t>(b)];
    }
    return std::min(tokens, choice.level);
  }

 private:
  struct Added {
    std::int64_t level = 0;      // up to which there is room
    std::size_t bucket = 0;      // the first that is not in
    std::int64_t in_bucket = 0;  // of it
  };

  void raise(std::size_t rank, std::int64_t level) {
    const auto& counts = ranks_[rank].counts;
    Added& added = added_[rank];
    std::int64_t room = level - added.level;
    if (room <= 0) {
      return;
    }
    added.level = level;
    std::size_t b = added.bucket;
    std::int64_t left = b < counts.size() ? counts[b] - added.in_bucket : 0;
    while (b < counts.size() && left <= room) {
      counts_[b] += left;
      room -= left;
      left = ++b < counts.size() ? counts[b] : 0;
    }
    added.in_bucket = b < counts.size() ? counts[b] - left + room : 0;
    added.bucket = b;
    if (b < counts.size()) {
      counts_[b] += room;
    }
  }

  std::span<const DraftHistogram> ranks_;
  std::vector<Added> added_;
  std::vector<std::int64_t> base_;  // tokens that are verified in any case
  std::int64_t lowest_ = 0;         // level without a draft
  std::int64_t highest_ = 0;        // level with all
  std::int64_t tokens_ = 0;
  std::int64_t expected_ = 0;
  std::array<std::int64_t, DraftHistogram::kBuckets> counts_{};
};

class GroupPlanner final : public VerifyPlanner {
 public:
  VerifyPlan plan(std::span<const DraftHistogram> ranks, const VerifyCosts& costs) override {
    LevelSweep sweep(ranks);
    VerifyPlan plan;
    Choice choice{sweep.highest(), DraftHistogram::kBuckets};
    if (sweep.lowest() == 0) {
      plan.reason = VerifyReason::kNoRequests;
    } else if (costs.rank.is_flat() && costs.group.is_flat()) {
      plan.reason = VerifyReason::kFlatCosts;
      choice = sweep.best_at(sweep.highest(), costs);
      choice.buckets = DraftHistogram::kBuckets;
    } else {
      choice = choose(sweep, costs, plan.reason);
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      plan.tokens.push_back(sweep.tokens_of(r, choice));
    }
    plan.level = level_ = choice.level;
    plan.expected = choice.expected;
    plan.time = choice.time;
    return plan;
  }

  void fill(const VerifyPlan& plan,
            std::size_t rank,
            std::span<const DraftedRequest> requests,
            std::span<std::uint8_t> lengths) const override {
    fill_by_chance(plan.tokens[rank] - std::ssize(requests), requests, lengths);
  }

 private:
  Choice choose(LevelSweep& sweep, const VerifyCosts& costs, VerifyReason& reason) const {
    const std::int64_t highest = sweep.highest();
    const std::int64_t stride = std::max<std::int64_t>((highest - sweep.lowest()) / kMostLevels, 1);
    const bool may_stay = level_ >= sweep.lowest() && level_ <= costs.rank.padded(highest);
    std::int64_t level = costs.rank.padded(sweep.lowest());
    Choice best = sweep.best_at(level, costs);
    Choice here = best;
    while (level < highest) {
      const std::int64_t next = costs.rank.padded(level + stride);
      level = may_stay && level < level_ ? std::min(next, level_) : next;
      const Choice now = sweep.best_at(level, costs);
      best = now.yields_more(best) ? now : best;
      here = level == level_ ? now : here;
    }
    const bool stays = here.level == level_ && !best.yields_more(here, kWorthAChange);
    reason = stays && best.level != level_ ? VerifyReason::kStayed : VerifyReason::kBest;
    return stays ? here : best;
  }

  std::int64_t level_ = -1;
};

std::unique_ptr<VerifyPlanner> make_group() {
  return std::make_unique<GroupPlanner>();
}

constexpr VerifyRow kRows[] = {
    {"group", "one level for all ranks, by expected tokens and measured times", make_group},
    {"fixed5", "all drafts, whether they pay or not", make_all_drafts, true},
    {"best_fixed",
     "the same number of every request, by expected tokens and times",
     make_best_fixed},
    {"threshold0.5", "drafts up to the first with a confidence below 0.5", make_threshold_50},
    {"threshold0.8", "drafts up to the first with a confidence below 0.8", make_threshold_80},
    {"greedy", "DSpark as run: each rank its best number, from old confidences", make_greedy},
    {"greedy_early",
     "DSpark as proved: current confidences, up to the first draft that costs more than it yields",
     make_greedy_early},
};

}  // namespace

StepTable::StepTable(std::int64_t grain, std::vector<Nanos> times)
    : shift_(std::countr_zero(static_cast<std::uint64_t>(grain))),
      times_(std::move(times)) {
  CHECK(std::has_single_bit(static_cast<std::uint64_t>(grain)));
  Nanos least{0};
  for (Nanos& time : times_) {
    time = least = std::max(time, least);
  }
}

Nanos StepTable::beyond(std::int64_t tokens) const {
  if (times_.empty()) {
    return Nanos{0};
  }
  const auto last = std::max<std::int64_t>(std::ssize(times_) - 1, 1) << shift_;
  return Nanos{times_.back().count() / last * tokens +
               times_.back().count() % last * tokens / last};
}

std::int64_t StepTable::padded(std::int64_t tokens) const {
  if (times_.empty()) {
    return tokens;
  }
  auto i = cells(tokens);
  while (i + 1 < std::ssize(times_) &&
         times_[static_cast<std::size_t>(i + 1)] == times_[static_cast<std::size_t>(i)]) {
    ++i;
  }
  return i << shift_;
}

std::span<const VerifyRow> verify_policies() {
  return kRows;
}

}  // namespace shoal
