// What a step of a decode group costs by the rows that it runs and the drafts that it makes behind
// them, learned from steps: a fixed time, a time a row, more of it for rows that drafts will see, a
// time of the draft pass and one of each sequence in it (`cost_fit`, which cuts what a stall adds).
// The slowest rank teaches, as all wait for it; and as ranks differ in speed, each has a pace: its
// usual part of what that rank takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/cost_fit.h"
#include "actors/policy/draft_step.h"
#include "actors/policy/verify_plan.h"
#include "schemas/units.h"

namespace shoal {

// What a rank runs in a step.
struct RankLoad {
  double rows = 0;
  double fed = 0;  // of these, rows that drafts will see
  double drafted = 0;
};

// What was learned, ns.
struct DraftCostTerms {
  double step = 0;
  double row = 0;
  double feed = 0;      // a row that drafts will see, on top
  double pass = 0;      // a draft pass, whatever it drafts for
  double sequence = 0;  // each that it drafts for
};

class DraftCosts {
 public:
  explicit DraftCosts(const DraftCostTerms& prior);

  void add(std::span<const RankDrafts> ranks);

  const DraftCostTerms& terms() const { return terms_; }

  // Mean error of predictions, in millionths.
  std::int64_t error_ppm() const { return fit_.error_ppm(); }

  // Of a step of these ranks; those without rows take no part in it. ns.
  double step(std::span<const RankLoad> ranks) const;

  // For a planner: steps that draft for all of these requests, by the tokens of the fullest rank.
  VerifyCosts verify(std::span<const std::int64_t> requests_of_rank) const;

 private:
  double alone(const RankLoad& load) const;

  double pace(std::size_t rank) const { return rank < paces_.size() ? paces_[rank].part : 1; }

  void follow_paces(std::span<const RankDrafts> ranks);

  struct Pace {
    double part = 1;
    std::int64_t steps = 0;
  };

  CostFit fit_;
  DraftCostTerms terms_;
  std::vector<Pace> paces_;
};

}  // namespace shoal
