// The normal equations, weighted so that a step counts by how far off it is in parts of its time.
#include "actors/policy/cost_fit.h"

#include <algorithm>
#include <span>

namespace shoal {
namespace {

constexpr double kForget = 0.998;
// The median of this many steps tells a change of speed: it is further off than kChanged, and than
// kCut times the usual error.
constexpr std::size_t kJudged = 15;
constexpr double kChanged = 0.1;
constexpr double kCut = 3;

// Errors beyond this, and beyond kCut times the usual one, are cut.
constexpr double kTolerated = 0.3;
// Before, the prior may be as wrong as it likes.
constexpr std::int64_t kLittle = 16;

constexpr double kMostError = 10;  // that counts in the mean

// What the prior of a term is worth, in steps like the first that shows it.
constexpr double kPrior = 0.1;
// How strongly a term stays what it was, in steps that would say so. Small: it decides only what
// the steps do not tell apart. A term may go as far as it is large, or kGrowth of a whole step.
constexpr double kHold = 1e-4;
constexpr double kGrowth = 0.1;

constexpr double kLongest = 3.6e12;  // ns: nothing that takes an hour is a step
constexpr std::int64_t kMostRows = 1 << 30;

// The k-th smallest part of them in order, 0 .. 1.
double quantile(std::span<const double> values, double part) {
  std::array<double, CostFit::kRemembered> sorted{};
  std::copy(values.begin(), values.end(), sorted.begin());
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(values.size());
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + at, end);
  return sorted.at(static_cast<std::size_t>(at));
}

std::int64_t ppm(double part) {
  return static_cast<std::int64_t>(std::min(part * 1e6, static_cast<double>(kMostLatePpm)));
}

std::int64_t rounded(double value, std::int64_t most) {
  return static_cast<std::int64_t>(std::clamp(value, 0.0, static_cast<double>(most)) + 0.5);
}

}  // namespace

CostFit::CostFit(const CostCoefficients& prior) : model_(prior) {
  const CostCoefficients& k = model_.coefficients();
  ns_ = {static_cast<double>(k.step.count()),
         static_cast<double>(k.row_ps) * 1e-3,
         static_cast<double>(k.near_fs) * 1e-6,
         static_cast<double>(k.pair_fs) * 1e-6,
         static_cast<double>(k.deep_row_ps) * 1e-3,
         static_cast<double>(k.deep_pair_fs) * 1e-6};
}

CostFit::Terms CostFit::terms(const StepWork& work) {
  return {1,
          static_cast<double>(work.rows),
          static_cast<double>(work.near),
          static_cast<double>(work.pairs),
          static_cast<double>(work.deep_rows),
          static_cast<double>(work.deep_pairs)};
}

double CostFit::predict(const Terms& terms) const {
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    sum += terms.at(i) * ns_.at(i);
  }
  return std::max(sum, 1.0);
}

void CostFit::add(const StepWork& work, Nanos took) {
  if (work.rows <= 0 || work.rows > kMostRows || took <= Nanos{0}) {
    return;
  }
  const Terms of_step = terms(work);
  const double measured = std::min(static_cast<double>(took.count()), kLongest);
  remember(predict(of_step), measured);
  follow_speed();
  const double expected = predict(of_step);
  double taken = measured;
  if (steps_ > kLittle) {
    const double most = 1 + std::max(kTolerated, kCut * usual_error_);
    taken = std::clamp(measured, expected / most, expected * most);
  }
  // In parts of the longer of both: neither a step that took no time nor one that took for ever
  // counts more than others.
  learn(of_step, taken, std::max(taken, expected));
  publish();
}

void CostFit::remember(double expected, double measured) {
  ratios_.at(static_cast<std::size_t>(steps_) % kRemembered) = measured / expected;
  ++steps_;
  const std::size_t known = std::min(static_cast<std::size_t>(steps_), kRemembered);
  std::array<double, kRemembered> off{};
  double sum = 0;
  for (std::size_t i = 0; i < known; ++i) {
    const double ratio = ratios_.at(i);
    off.at(i) = ratio < 1 ? 1 / ratio - 1 : ratio - 1;  // half the time is as wrong as twice
    sum += std::min(off.at(i) / (ratio < 1 ? 1 : ratio), kMostError);
  }
  usual_error_ = quantile({off.data(), known}, 0.5);
  error_ppm_ = ppm(sum / static_cast<double>(known));
  late_ppm_ = ppm(std::max(0.0, quantile({ratios_.data(), known}, 0.95) - 1));
}

// What was seen at another speed is worth as much as before: it would have taken so much longer.
void CostFit::follow_speed() {
  if (steps_ - judged_from_ < static_cast<std::int64_t>(kJudged)) {
    return;
  }
  std::array<double, kJudged> last{};
  for (std::size_t i = 0; i < kJudged; ++i) {
    last.at(i) = ratios_.at((static_cast<std::size_t>(steps_) - 1 - i) % kRemembered);
  }
  const double most = 1 + std::max(kChanged, kCut * usual_error_);
  const double slower = quantile(last, 0.5);
  if (slower <= most && slower >= 1 / most) {
    return;
  }
  judged_from_ = steps_;
  for (std::size_t i = 0; i < kTerms; ++i) {
    ns_.at(i) *= slower;
    target_.at(i) /= slower;
    for (double& seen : seen_.at(i)) {
      seen /= slower * slower;
    }
  }
}

void CostFit::learn(const Terms& terms, double took, double scale) {
  weight_ = kForget * weight_ + 1;
  for (std::size_t i = 0; i < kTerms; ++i) {
    const double x = terms.at(i) / scale;
    if (seen_.at(i).at(i) == 0 && x > 0) {
      seen_.at(i).at(i) = kPrior * x * x;
      target_.at(i) = kPrior * x * x * ns_.at(i);
    }
    target_.at(i) = kForget * target_.at(i) + x * took / scale;
    for (std::size_t j = 0; j < kTerms; ++j) {
      seen_.at(i).at(j) = kForget * seen_.at(i).at(j) + x * terms.at(j) / scale;
    }
  }
  solve();
}

// The least squares of all terms that were seen; what would be below 0 is 0, and the others are
// solved for again without it.
void CostFit::solve() {
  std::array<bool, kTerms> free{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    free.at(i) = seen_.at(i).at(i) > 0;
  }
  for (std::size_t tries = 0; tries < kTerms; ++tries) {
    const Terms found = solve_for(free);
    std::size_t least = 0;
    for (std::size_t i = 1; i < kTerms; ++i) {
      least =
          found.at(i) * seen_.at(i).at(i) < found.at(least) * seen_.at(least).at(least) ? i : least;
    }
    if (found.at(least) >= 0) {
      ns_ = found;
      return;
    }
    free.at(least) = false;
    ns_.at(least) = 0;
  }
}

// Gauss without a choice of pivots: the matrix is symmetric and, by what holds each term, positive.
CostFit::Terms CostFit::solve_for(const std::array<bool, kTerms>& free) const {
  std::array<Terms, kTerms> a = seen_;
  Terms b = target_;
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (free.at(i)) {
      const double reach = ns_.at(i) * ns_.at(i) / weight_ + kGrowth * kGrowth / seen_.at(i).at(i);
      a.at(i).at(i) += kHold / reach;
      b.at(i) += kHold / reach * ns_.at(i);
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = i + 1; free.at(i) && j < kTerms; ++j) {
      const double part = free.at(j) ? a.at(j).at(i) / a.at(i).at(i) : 0;
      for (std::size_t c = i; c < kTerms; ++c) {
        a.at(j).at(c) -= part * a.at(i).at(c);
      }
      b.at(j) -= part * b.at(i);
    }
  }
  Terms found = ns_;
  for (std::size_t i = kTerms; i-- > 0;) {
    if (free.at(i)) {
      double rest = b.at(i);
      for (std::size_t j = i + 1; j < kTerms; ++j) {
        rest -= free.at(j) ? a.at(i).at(j) * found.at(j) : 0;
      }
      found.at(i) = rest / a.at(i).at(i);
    }
  }
  return found;
}

void CostFit::publish() {
  const CostCoefficients& most = kMostCost;
  model_ = CostModel({.step = Nanos{rounded(ns_[0], most.step.count())},
                      .row_ps = rounded(ns_[1] * 1e3, most.row_ps),
                      .pair_fs = rounded(ns_[3] * 1e6, most.pair_fs),
                      .near_fs = rounded(ns_[2] * 1e6, most.near_fs),
                      .deep_row_ps = rounded(ns_[4] * 1e3, most.deep_row_ps),
                      .deep_pair_fs = rounded(ns_[5] * 1e6, most.deep_pair_fs)});
}

}  // namespace shoal
