// Errors are relative and weighted by load: sum of (difference squared / expected part) over the
// experts of a layer, as in a chi-square test, on average over layers.
#include "actors/policy/expert_forecast.h"

#include <algorithm>
#include <cmath>

#include "schemas/check.h"

namespace shoal {

namespace {

constexpr std::array<double, 3> kNewest = {1.0, 0.5, 0.125};  // how much a window counts
constexpr std::size_t kRemembered = 5;                        // windows
constexpr double kFirstSquare = 0.01;  // error that is assumed before the first window, squared
// A window that is more than twice as far from what was foretold as windows were begins anew.
constexpr double kSudden = 4;  // squares
constexpr double kLeastSquare = 1e-6;
// Experts that got nothing are expected to get this part of an even load.
constexpr double kFloor = 1e-3;

double square(double x) {
  return x * x;
}

// Of two the lower: one change of domain makes no habit. Of none: 0.
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[(values.size() - 1) / 2];
}

}  // namespace

ExpertForecast::ExpertForecast(std::int32_t layers, std::int32_t experts)
    : layers_(layers),
      experts_(experts) {
  CHECK(layers > 0 && experts > 0);
  const std::size_t size = static_cast<std::size_t>(layers) * experts;
  predictions_.fill(std::vector<double>(size, 1.0 / experts));
  sums_.assign(size, 0);
  squares_.fill({kFirstSquare});
}

std::vector<double> ExpertForecast::parts_of(std::span<const std::int64_t> counts) const {
  CHECK(counts.size() == sums_.size());
  std::vector<double> parts(counts.size(), 1.0 / experts_);
  for (std::int32_t layer = 0; layer < layers_; ++layer) {
    const auto own = counts.subspan(static_cast<std::size_t>(layer) * experts_, experts_);
    double sum = 0;
    for (const std::int64_t count : own) {
      sum += static_cast<double>(std::max<std::int64_t>(count, 0));
    }
    if (sum <= 0) {
      continue;
    }
    const double floor = kFloor * sum / experts_;
    for (std::int32_t expert = 0; expert < experts_; ++expert) {
      const double count = static_cast<double>(std::max<std::int64_t>(own[expert], 0));
      parts[static_cast<std::size_t>(layer) * experts_ + expert] =
          (count + floor) / (sum + floor * experts_);
    }
  }
  return parts;
}

void ExpertForecast::saw_window(std::span<const std::int64_t> counts) {
  const std::vector<double> seen = parts_of(counts);
  const bool begins = windows_ == 0 || score(seen);
  for (std::size_t p = 0; p < kPredictors; ++p) {
    const double newest = begins ? 1 : kNewest[p];
    for (std::size_t i = 0; i < seen.size(); ++i) {
      predictions_[p][i] += newest * (seen[i] - predictions_[p][i]);
    }
  }
  spread_ = step_spread();
  steps_ = 0;
  step_squares_ = 0;
  std::fill(sums_.begin(), sums_.end(), 0);
  ++windows_;
}

// True: it has little to do with what was foretold.
bool ExpertForecast::score(const std::vector<double>& seen) {
  const std::vector<double> mixed = prior();
  std::array<double, kPredictors + 1> squares{};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (std::size_t p = 0; p < kPredictors; ++p) {
      squares[p] += square(seen[i] - predictions_[p][i]) / predictions_[p][i];
    }
    squares[kPredictors] += square(seen[i] - mixed[i]) / mixed[i];
  }
  const bool is_sudden = squares[kPredictors] / layers_ > kSudden * median(squares_[kPredictors]);
  for (std::size_t p = 0; p < squares_.size(); ++p) {
    squares_[p].resize(std::max(squares_[p].size(), next_ + 1));
    squares_[p][next_] = squares[p] / layers_;
  }
  next_ = (next_ + 1) % kRemembered;
  return is_sudden;
}

void ExpertForecast::saw_step(std::span<const std::int64_t> counts) {
  const std::vector<double> seen = parts_of(counts);
  const std::vector<double> expected = prior();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    sums_[i] += seen[i];
    step_squares_ += square(seen[i]) / expected[i];
  }
  ++steps_;
}

// A predictor that is wrong by half counts sixteenfold.
std::array<double, 3> ExpertForecast::weights() const {
  std::array<double, kPredictors> weights{};
  double sum = 0;
  for (std::size_t p = 0; p < kPredictors; ++p) {
    weights[p] = 1 / square(median(squares_[p]) + kLeastSquare);
    sum += weights[p];
  }
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

std::vector<double> ExpertForecast::prior() const {
  const auto by = weights();
  std::vector<double> mixed(sums_.size(), 0);
  for (std::size_t p = 0; p < kPredictors; ++p) {
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      mixed[i] += by[p] * predictions_[p][i];
    }
  }
  return mixed;
}

double ExpertForecast::step_spread() const {
  if (steps_ < 2) {
    return spread_;
  }
  const std::vector<double> expected = prior();
  double of_means = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    of_means += square(sums_[i]) / static_cast<double>(steps_) / expected[i];
  }
  const double squares = (step_squares_ - of_means) / static_cast<double>(steps_ - 1) / layers_;
  return std::sqrt(std::max(squares, 0.0));
}

double ExpertForecast::prior_error() const {
  const std::vector<double>& mixed = squares_[kPredictors];
  const double recent = std::sqrt(median(mixed));
  if (steps_ == 0) {
    return recent;
  }
  const std::vector<double> expected = prior();
  double squares = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    squares += square(sums_[i] / static_cast<double>(steps_) - expected[i]) / expected[i];
  }
  const double noise = square(step_spread()) / static_cast<double>(steps_);
  return std::max(recent, std::sqrt(std::max(0.0, squares / layers_ - noise)));
}

std::vector<double> ExpertForecast::loads() const {
  std::vector<double> loads = prior();
  if (steps_ == 0) {
    return loads;
  }
  const double noise = square(step_spread()) / static_cast<double>(steps_);
  const double wrong = square(prior_error());
  const double newest = wrong / std::max(wrong + noise, kLeastSquare);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i] += newest * (sums_[i] / static_cast<double>(steps_) - loads[i]);
  }
  return loads;
}

double ExpertForecast::error() const {
  const double wrong = square(prior_error());
  if (steps_ == 0) {
    return std::sqrt(wrong);
  }
  const double noise = square(step_spread()) / static_cast<double>(steps_);
  return std::sqrt(wrong * noise / std::max(wrong + noise, kLeastSquare));
}

}  // namespace shoal
