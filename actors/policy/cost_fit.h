// Learns the coefficients of the cost model from measured steps: least squares in relative error,
// in which a step counts half as much after some 350 more (recursive least squares with
// forgetting). No coefficient is below 0. What the steps do not tell apart keeps its proportions.
//
// One measurement may be a stalled machine: what is much further from its prediction than usual
// counts as if it were less far. Most of fifteen in one direction are another speed: all
// coefficients are multiplied by it at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "actors/policy/cost_model.h"
#include "schemas/units.h"

namespace shoal {

class CostFit {
 public:
  // Steps whose errors are remembered.
  static constexpr std::size_t kRemembered = 128;

  // `prior` holds until steps say otherwise.
  explicit CostFit(const CostCoefficients& prior);

  // A step that took that long. Steps of no rows or no time are left out.
  void add(const StepWork& work, Nanos took);

  const CostModel& model() const { return model_; }

  CostReport report() const { return {model_.coefficients(), late_ppm_, steps_}; }

  // That were added.
  std::int64_t steps() const { return steps_; }

  // Of the remembered steps, each predicted before it was learned from, in millionths: how far off
  // predictions were in parts of the time taken, on average; and how much longer than predicted all
  // but one in twenty took at most, in parts of the prediction. 0 before the first step.
  std::int64_t error_ppm() const { return error_ppm_; }

  std::int64_t late_ppm() const { return late_ppm_; }

 private:
  static constexpr std::size_t kTerms = 6;
  using Terms = std::array<double, kTerms>;

  static Terms terms(const StepWork& work);
  double predict(const Terms& terms) const;
  void remember(double expected, double measured);
  void follow_speed();
  void learn(const Terms& terms, double took, double scale);
  void solve();
  Terms solve_for(const std::array<bool, kTerms>& free) const;
  void publish();

  std::array<Terms, kTerms> seen_{};  // sum of the outer products of the steps' terms
  Terms target_{};                    // sum of the terms times the time
  double weight_ = 0;                 // steps that still count
  Terms ns_{};                        // one of each term, ns
  CostModel model_;
  std::int64_t steps_ = 0;
  std::int64_t judged_from_ = 0;              // steps since the last change of speed tell the next
  std::array<double, kRemembered> ratios_{};  // a ring: measured to predicted
  double usual_error_ = 0;                    // the median of the remembered
  std::int64_t error_ppm_ = 0;
  std::int64_t late_ppm_ = 0;
};

}  // namespace shoal
