// Plans all layers of a model from what each expert got in a window: layers of one shape share a
// planner (expert_plan.h). Layers that got nothing say nothing of the next window: they stay as
// they are. So does a layer whose ranks would hold what they hold, in whatever slots.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/policy/expert_placement.h"
#include "actors/policy/expert_plan.h"

namespace shoal {

struct ExpertBalancePlan {
  std::vector<ExpertPlan> layers;
  std::int32_t changed = 0;  // layers
  ExpertMoves moves;         // of all layers; most_of_rank of the worst
  // Predicted, mean over the layers that the row predicted; 0: it predicted none.
  double imbalance_before = 0;
  double imbalance = 0;
};

// Not for several threads at a time.
class ExpertBalance {
 public:
  // Each shape must be plannable.
  ExpertBalance(const ExpertPlanRow& row,
                std::vector<ExpertShape> layers,
                const ExpertPlanCosts& costs,
                std::uint64_t seed);

  const std::vector<ExpertShape>& shapes() const { return shapes_; }

  // Of each expert of a layer, as planned for last; in any unit.
  std::vector<double> loads(std::size_t layer) const;

  // `rows` of each expert, by layer, in as many steps as the next window is expected to have.
  ExpertBalancePlan plan(std::span<const std::vector<std::int64_t>> rows,
                         std::int64_t steps,
                         std::span<const SlotExperts> current);

 private:
  struct Alike {
    std::vector<std::size_t> layers;
    std::unique_ptr<ExpertPlanner> planner;
  };

  void plan_alike(Alike& alike,
                  std::span<const std::vector<std::int64_t>> rows,
                  std::span<const SlotExperts> current,
                  ExpertBalancePlan& plan) const;

  std::vector<ExpertShape> shapes_;
  std::vector<Alike> alike_;
};

// The fullest by the mean one; 1 where there is no load at all.
double fullest_by_mean(std::span<const std::int64_t> loads);

}  // namespace shoal
