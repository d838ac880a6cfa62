// Each rank for itself, or without looking at times at all.
#include "actors/policy/verify_baselines.h"

#include <algorithm>
#include <numeric>

#include "schemas/check.h"

namespace shoal {
namespace {

std::int64_t requests_of(std::span<const DraftHistogram> ranks) {
  return std::accumulate(
      ranks.begin(), ranks.end(), std::int64_t{0}, [](std::int64_t sum, const DraftHistogram& r) {
        return sum + r.requests;
      });
}

// The first `drafts` of every request.
class FixedPlanner : public VerifyPlanner {
 public:
  VerifyPlan plan(std::span<const DraftHistogram> ranks, const VerifyCosts& costs) override {
    return plan_of(kMostDrafts, ranks, costs);
  }

  void fill(const VerifyPlan& plan,
            std::size_t /*rank*/,
            std::span<const DraftedRequest> requests,
            std::span<std::uint8_t> lengths) const override {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      lengths[i] = static_cast<std::uint8_t>(std::clamp(requests[i].drafts, 0, plan.most_drafts));
    }
  }

 protected:
  static VerifyPlan plan_of(int drafts,
                            std::span<const DraftHistogram> ranks,
                            const VerifyCosts& costs) {
    VerifyPlan plan;
    plan.most_drafts = drafts;
    plan.expected = requests_of(ranks) * kCertain;
    for (const DraftHistogram& rank : ranks) {
      plan.tokens.push_back(rank.requests * (1 + drafts));
      plan.level = std::max(plan.level, plan.tokens.back());
      for (int j = 0; j < drafts; ++j) {
        plan.expected += rank.by_place[static_cast<std::size_t>(j)];
      }
    }
    plan.time = costs.step(plan.level, requests_of(ranks) * (1 + drafts));
    return plan;
  }
};

class BestFixedPlanner final : public FixedPlanner {
 public:
  VerifyPlan plan(std::span<const DraftHistogram> ranks, const VerifyCosts& costs) override {
    VerifyPlan best = plan_of(0, ranks, costs);
    for (int drafts = 1; drafts <= kMostDrafts; ++drafts) {
      VerifyPlan plan = plan_of(drafts, ranks, costs);
      const auto rate = static_cast<double>(plan.expected) * static_cast<double>(best.time.count());
      if (rate > static_cast<double>(best.expected) * static_cast<double>(plan.time.count())) {
        best = std::move(plan);
      }
    }
    best.reason = VerifyReason::kBest;
    return best;
  }
};

class ThresholdPlanner final : public FixedPlanner {
 public:
  explicit ThresholdPlanner(float threshold) : threshold_(threshold) {}

  void fill(const VerifyPlan& /*plan*/,
            std::size_t /*rank*/,
            std::span<const DraftedRequest> requests,
            std::span<std::uint8_t> lengths) const override {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto begin = requests[i].confidence.begin();
      const auto end = begin + std::clamp(requests[i].drafts, 0, kMostDrafts);
      const auto low = std::find_if_not(begin, end, [this](float c) { return c >= threshold_; });
      lengths[i] = static_cast<std::uint8_t>(low - begin);
    }
  }

 private:
  float threshold_;
};

// A number of drafts of one rank; its step takes as if all ranks had as many.
class RankChoice {
 public:
  RankChoice(std::int64_t requests, std::size_t ranks, const VerifyCosts& costs)
      : costs_(costs),
        ranks_(static_cast<std::int64_t>(ranks)),
        tokens_(requests),
        expected_(requests * kCertain),
        best_expected_(expected_),
        best_time_(time_of(tokens_)),
        requests_(requests) {}

  // False: the draft lowers the tokens a second below the best so far.
  bool add(std::int64_t chance) {
    expected_ += chance;
    const std::int64_t time = time_of(++tokens_);
    const bool gains = static_cast<double>(expected_) * static_cast<double>(best_time_) >=
                       static_cast<double>(best_expected_) * static_cast<double>(time);
    if (gains) {
      best_expected_ = expected_;
      best_time_ = time;
      best_drafts_ = tokens_ - requests_;
    }
    return gains;
  }

  std::int64_t best_drafts() const { return best_drafts_; }

  std::int64_t best_expected() const { return best_expected_; }

 private:
  std::int64_t time_of(std::int64_t tokens) const {
    return costs_.step(tokens, tokens * ranks_).count();
  }

  const VerifyCosts& costs_;
  std::int64_t ranks_;
  std::int64_t tokens_;
  std::int64_t expected_;
  std::int64_t best_expected_;
  std::int64_t best_time_;
  std::int64_t best_drafts_ = 0;
  std::int64_t requests_;
};

class GreedyPlanner final : public VerifyPlanner {
 public:
  VerifyPlan plan(std::span<const DraftHistogram> ranks, const VerifyCosts& costs) override {
    VerifyPlan plan;
    plan.reason = requests_of(ranks) > 0 ? VerifyReason::kBest : VerifyReason::kNoRequests;
    std::int64_t sum = 0;
    for (const DraftHistogram& rank : ranks) {
      RankChoice choice(rank.requests, ranks.size(), costs);
      for (std::size_t b = 0; b < rank.counts.size(); ++b) {
        for (std::uint32_t i = 0; i < rank.counts[b]; ++i) {
          choice.add(kBucketChances[b]);
        }
      }
      plan.tokens.push_back(rank.requests + choice.best_drafts());
      plan.level = std::max(plan.level, plan.tokens.back());
      plan.expected += choice.best_expected();
      sum += plan.tokens.back();
    }
    plan.time = costs.step(plan.level, sum);
    return plan;
  }

  void fill(const VerifyPlan& plan,
            std::size_t rank,
            std::span<const DraftedRequest> requests,
            std::span<std::uint8_t> lengths) const override {
    fill_by_chance(plan.tokens[rank] - std::ssize(requests), requests, lengths);
  }
};

class GreedyEarlyPlanner final : public FixedPlanner {
 public:
  VerifyPlan plan(std::span<const DraftHistogram> ranks, const VerifyCosts& costs) override {
    VerifyPlan plan = plan_of(kMostDrafts, ranks, costs);
    plan.costs = std::make_shared<const VerifyCosts>(costs);
    return plan;
  }

  void fill(const VerifyPlan& plan,
            std::size_t /*rank*/,
            std::span<const DraftedRequest> requests,
            std::span<std::uint8_t> lengths) const override {
    CHECK(plan.costs != nullptr);
    DraftHistogram current;
    for (DraftedRequest request : requests) {
      request.slack = Nanos{0};
      current.add(request);
    }
    RankChoice choice(std::ssize(requests), plan.tokens.size(), *plan.costs);
    bool gains = true;
    for (std::size_t b = 0; gains && b < current.counts.size(); ++b) {
      for (std::uint32_t i = 0; gains && i < current.counts[b]; ++i) {
        gains = choice.add(kBucketChances[b]);
      }
    }
    fill_by_chance(choice.best_drafts(), requests, lengths);
  }
};

}  // namespace

std::unique_ptr<VerifyPlanner> make_all_drafts() {
  return std::make_unique<FixedPlanner>();
}

std::unique_ptr<VerifyPlanner> make_best_fixed() {
  return std::make_unique<BestFixedPlanner>();
}

std::unique_ptr<VerifyPlanner> make_threshold_50() {
  return std::make_unique<ThresholdPlanner>(0.5F);
}

std::unique_ptr<VerifyPlanner> make_threshold_80() {
  return std::make_unique<ThresholdPlanner>(0.8F);
}

std::unique_ptr<VerifyPlanner> make_greedy() {
  return std::make_unique<GreedyPlanner>();
}

std::unique_ptr<VerifyPlanner> make_greedy_early() {
  return std::make_unique<GreedyEarlyPlanner>();
}

}  // namespace shoal
