// How unbalanced a placement will be, with the split that follows each step: the mean over a few
// drawn steps, which are as far from the forecast as forecasts and steps recently were.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/expert_fill.h"
#include "actors/policy/expert_placement.h"

namespace shoal {

class ExpertRisk {
 public:
  // `spread`: of an average expert, relative. The same seed draws the same steps.
  ExpertRisk(const ExpertShape& shape,
             std::span<const double> loads,
             double spread,
             std::uint64_t seed);

  // Fullest rank by the mean one.
  double of(std::span<const std::int32_t> expert_at) const;
  double of(ExpertFill& fill) const;

  // What was drawn: tokens of each expert. The first is the forecast itself.
  std::span<const std::vector<std::int32_t>> steps() const { return steps_; }

  std::span<const double> loads() const { return loads_; }

  double spread() const { return spread_; }

 private:
  ExpertShape shape_;
  std::vector<double> loads_;
  double spread_;
  std::vector<std::vector<std::int32_t>> steps_;
};

}  // namespace shoal
