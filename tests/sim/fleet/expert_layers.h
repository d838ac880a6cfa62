// Experts of all layers of a group where a planner put them, and how evenly a step's tokens then
// load its ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/policy/expert_plan.h"
#include "actors/policy/expert_split.h"
#include "tests/sim/fleet/expert_loads.h"
#include "tests/sim/fleet/samples.h"

namespace shoal::sim {

class ExpertLayers {
 public:
  ExpertLayers(const ExpertShape& shape, const ExpertSplitRow& split, std::int32_t layers);

  // Nothing is placed yet.
  bool empty() const { return current_.empty(); }

  // Puts them where the planner says now; the moves of all layers.
  ExpertMoves plan(const ExpertPlanner& planner);

  // The fullest rank's tokens by the mean rank's, the mean over layers; each layer is a sample.
  // `counts` are of so many steps.
  double judge(const ExpertCounts& counts, std::int64_t steps, Samples* samples);

  // Tokens of each rank in the last judged counts, of all layers.
  std::span<const std::int64_t> rank_tokens() const { return rank_tokens_; }

 private:
  void make_splits(const ExpertPlanner& planner);

  ExpertShape shape_;
  const ExpertSplitRow& split_;
  std::int32_t layers_;
  std::vector<SlotExperts> current_;
  std::vector<std::unique_ptr<ExpertSplit>> splits_;
  std::vector<std::int32_t> counts_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> rank_tokens_;
};

}  // namespace shoal::sim
