// What each expert will get, from what it got. Three predictors (the last window, a fast and a slow
// running mean) are mixed by how well each foretold recent windows. Steps of the window under way
// count by how sure they are: a mean of few steps is noisy, and the forecast is as wrong as it
// recently was or as these steps show it to be, whichever is more. So a change of domain is
// followed within a few steps, and without one noise is not. After a window that was much further
// from its forecast than others, what was before is forgotten.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal {

class ExpertForecast {
 public:
  ExpertForecast(std::int32_t layers, std::int32_t experts);

  // Counts of all experts, layer by layer. A window ends what steps were seen before.
  void saw_window(std::span<const std::int64_t> counts);
  void saw_step(std::span<const std::int64_t> counts);

  // Load of each expert, layer by layer, as a part of its layer's. Even before anything was seen.
  std::vector<double> loads() const;

  // How wrong loads() is, relative, root mean square weighted by load.
  double error() const;

  // How far a single step is from the mean of steps, likewise; 0 as long as no two were seen.
  double step_spread() const;

 private:
  static constexpr std::size_t kPredictors = 3;

  std::vector<double> parts_of(std::span<const std::int64_t> counts) const;
  std::array<double, kPredictors> weights() const;
  std::vector<double> prior() const;
  bool score(const std::vector<double>& seen);
  double prior_error() const;

  std::int32_t layers_;
  std::int32_t experts_;
  std::int64_t windows_ = 0;
  std::array<std::vector<double>, kPredictors> predictions_;
  // Errors squared of each predictor, then of their mix, in the last windows, in turn. Medians
  // count: a change of domain says little of how predictors do before and after it.
  std::array<std::vector<double>, kPredictors + 1> squares_;
  std::size_t next_ = 1;  // place 0 has what is assumed before the first window

  // Of the window under way.
  std::int64_t steps_ = 0;
  std::vector<double> sums_;
  double step_squares_ = 0;  // over steps and experts: part squared by the mean part
  double spread_ = 0;        // of the last window that showed one
};

}  // namespace shoal
