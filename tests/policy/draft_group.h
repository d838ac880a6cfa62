// A decode group whose costs and chances are known, for tests of who decides on its drafts. Steps
// overlap: the next one is planned before the one that runs is over.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "actors/policy/draft_control.h"
#include "actors/policy/verify_fill.h"

namespace shoal::testing {

struct GroupLoad {
  std::vector<std::int64_t> requests{32};  // of each rank
  std::vector<double> slower{};            // each rank takes so many times as long; none: 1
  DraftCostTerms costs{};
  double sharpness = 2;  // concentration of the chances: small is sharp
  double survival = 1;   // what the chances of the later drafts are multiplied by
  double head = 1;       // it says the true logits times this
  double noise = 0;      // of times
  double stalls = 0;     // share of steps that take `stall` times as long
  double stall = 20;
  int window = 0;    // steps whose rows drafts must see, or none holds
  double stays = 0;  // chance that a request is as sure as in the step before
};

// A step with five drafts for all takes 10 ms and `variable` times that, drafts not counted; the
// draft pass takes `pass` times 10 ms.
inline DraftCostTerms costs_of(std::int64_t requests, double variable, double pass) {
  constexpr double kFixed = 10e6;
  return {.step = kFixed,
          .row = variable * kFixed / static_cast<double>(6 * requests),
          .pass = 0.7 * pass * kFixed,
          .sequence = 0.3 * pass * kFixed / static_cast<double>(requests)};
}

class DraftGroup {
 public:
  DraftGroup(GroupLoad load, std::uint64_t seed) : load_(std::move(load)), random_(seed) {
    resize();
  }

  GroupLoad& load() { return load_; }

  const GroupLoad& load() const { return load_; }

  // After a change of load().requests.
  void resize() {
    pending_.resize(load_.requests.size());
    for (std::size_t r = 0; r < pending_.size(); ++r) {
      pending_[r].resize(static_cast<std::size_t>(load_.requests[r]));
    }
  }

  std::vector<RankDrafts> step(const DraftPlan& plan,
                               VerifyFill& fill,
                               const Temperatures& temperatures) {
    std::vector<RankDrafts> ranks(pending_.size());
    shown_ = plan.feeds ? shown_ + 1 : 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      RankDrafts& rank = ranks[r];
      rank.requests = rank.rows = std::ssize(pending_[r]);
      if (plan.verifies) {
        verify(plan.sizes, r, fill, temperatures, rank);
      }
      rank.feeds = plan.feeds;
      for (Drafts& drafts : pending_[r]) {
        drafts.said.drafts = plan.makes_drafts ? kMostDrafts : 0;
        if (plan.makes_drafts) {
          draw(drafts);
          rank.made.add(calibrated(drafts.said, temperatures));
        }
      }
      rank.drafted = plan.makes_drafts ? rank.requests : 0;
      rank.compute = Nanos{std::llround(time(r, rank) * luck())};
      tokens_ += static_cast<double>(rank.requests);
    }
    time_ += longest(ranks);
    return ranks;
  }

  // Without noise, of the slowest rank.
  double time_ns() const { return time_; }

  double tokens() const { return tokens_; }

 private:
  struct Drafts {
    DraftedRequest said{.drafts = 0};
    std::array<double, kMostDrafts> chances{};
    int acceptable = 0;
  };

  void verify(const VerifyPlan& sizes,
              std::size_t r,
              VerifyFill& fill,
              const Temperatures& temperatures,
              RankDrafts& rank) {
    std::vector<DraftedRequest> said;
    for (const Drafts& drafts : pending_[r]) {
      said.push_back(drafts.said);
    }
    std::vector<std::uint8_t> lengths(said.size());
    fill.lengths(sizes, r, said, temperatures, lengths);
    for (std::size_t i = 0; i < said.size(); ++i) {
      VerifyOutcome outcome{.verified = lengths[i],
                            .accepted = std::min<int>(lengths[i], pending_[r][i].acceptable)};
      outcome.confidence = said[i].confidence;
      rank.rows += outcome.verified;
      tokens_ += outcome.accepted;
      if (outcome.verified > 0) {
        rank.outcomes.push_back(outcome);
      }
    }
  }

  void draw(Drafts& drafts) {
    constexpr std::array<double, kMostDrafts> kSurvival{.84, .67, .50, .35, .25};
    const bool stays = drafts.chances[0] > 0 && uniform() < load_.stays;
    double before = 1;
    drafts.acceptable = 0;
    bool accepts = shown_ >= load_.window;
    for (std::size_t j = 0; j < kSurvival.size(); ++j) {
      const double mean = kSurvival[j] / before * load_.survival;
      double& chance = drafts.chances[j];
      chance = stays ? chance : beta(mean * load_.sharpness, (1 - mean) * load_.sharpness);
      before = kSurvival[j];
      accepts = accepts && uniform() < chance;
      drafts.acceptable += accepts ? 1 : 0;
      const double odds = std::pow(chance / (1 - chance), load_.head);
      drafts.said.confidence[j] = static_cast<float>(odds / (1 + odds));
    }
  }

  double beta(double a, double b) {
    const double x = std::gamma_distribution<double>(a)(random_);
    const double y = std::gamma_distribution<double>(b)(random_);
    return std::clamp(x + y > 0 ? x / (x + y) : 0.5, 1e-6, 1 - 1e-6);
  }

  double uniform() { return std::uniform_real_distribution<double>()(random_); }

  double time(std::size_t r, const RankDrafts& rank) const {
    const DraftCostTerms& c = load_.costs;
    const double own =
        c.step + (c.row + (rank.feeds ? c.feed : 0)) * static_cast<double>(rank.rows) +
        c.sequence * static_cast<double>(rank.drafted) + (rank.drafted > 0 ? c.pass : 0);
    return rank.requests > 0 ? own * (r < load_.slower.size() ? load_.slower[r] : 1) : 0;
  }

  double longest(const std::vector<RankDrafts>& ranks) const {
    double longest = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      longest = std::max(longest, time(r, ranks[r]));
    }
    return longest;
  }

  double luck() {
    const double usual = std::exp(std::normal_distribution<double>(0, load_.noise)(random_));
    return load_.stalls > 0 && uniform() < load_.stalls ? usual * load_.stall : usual;
  }

  GroupLoad load_;
  std::mt19937_64 random_;
  std::vector<std::vector<Drafts>> pending_;  // made behind the last step, of each rank's requests
  int shown_ = 0;                             // steps in a row whose rows drafts see
  double time_ = 0;
  double tokens_ = 0;
};

// Tokens a ms over these steps.
template <class Decide>
double run_group(DraftGroup& group, const VerifyRow& row, int steps, Decide&& decide) {
  VerifyFill fill(row);
  const double tokens = group.tokens();
  const double time = group.time_ns();
  for (int i = 0; i < steps; ++i) {
    decide(group, fill);
  }
  return (group.tokens() - tokens) / (group.time_ns() - time) * 1e6;
}

// A control, and the step that is planned while another one runs.
struct LiveGroup {
  DraftControl control;
  std::deque<DraftPlan> planned{};
  std::vector<DraftPlan> plans{};  // all
  bool overlaps = true;

  void operator()(DraftGroup& group, VerifyFill& fill) {
    while (planned.size() < (overlaps ? 2 : 1)) {
      planned.push_back(control.plan(group.load().requests));
      plans.push_back(planned.back());
    }
    control.add(group.step(planned.front(), fill, control.temperatures()));
    planned.pop_front();
  }
};

// The same planner with the true costs, and drafts in every step.
struct KnowingGroup {
  std::unique_ptr<VerifyPlanner> planner;
  VerifyCosts costs;
  std::deque<std::vector<DraftHistogram>> made{};  // of the last two steps

  void operator()(DraftGroup& group, VerifyFill& fill) {
    DraftPlan plan{.feeds = true, .makes_drafts = true, .verifies = made.size() == 2};
    if (plan.verifies) {
      plan.sizes = planner->plan(made.front(), costs);
    }
    const auto ranks = group.step(plan, fill, kUntempered);
    std::vector<DraftHistogram>& histograms = made.emplace_back();
    for (const RankDrafts& rank : ranks) {
      histograms.push_back(rank.made);
    }
    if (made.size() > 2) {
      made.pop_front();
    }
  }
};

inline KnowingGroup knowing(const VerifyRow& row, const GroupLoad& load) {
  std::int64_t most = 1;
  for (const std::int64_t requests : load.requests) {
    most = std::max(most, requests);
  }
  std::vector<Nanos> times;
  for (std::int64_t tokens = 0; tokens <= most * (1 + kMostDrafts); ++tokens) {
    times.emplace_back(std::llround(static_cast<double>(tokens) * load.costs.row));
  }
  const double fixed =
      load.costs.step + load.costs.pass + load.costs.sequence * static_cast<double>(most);
  return {.planner = row.make(),
          .costs = {.fixed = Nanos{std::llround(fixed)},
                    .rank = StepTable(1, std::move(times)),
                    .group = StepTable{}}};
}

inline double rate_without_drafts(const GroupLoad& load) {
  double longest = 0;
  double requests = 0;
  for (std::size_t r = 0; r < load.requests.size(); ++r) {
    const auto own = static_cast<double>(load.requests[r]);
    const double slower = r < load.slower.size() ? load.slower[r] : 1;
    longest = std::max(longest, own > 0 ? slower * (load.costs.step + load.costs.row * own) : 0);
    requests += own;
  }
  return requests / longest * 1e6;
}

}  // namespace shoal::testing
