// Deviations are bounded, so that few steps say as much as they can.
#include "actors/policy/expert_risk.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "actors/policy/draw.h"

namespace shoal {

namespace {

// The forecast, and two steps that are as far from it as each other, in opposite directions: what
// suits only one of them is no gain.
constexpr double kDirections[] = {0, 1, -1};
constexpr std::size_t kSteps = std::size(kDirections);
constexpr double kTokens = 1 << 24;  // of a drawn step

// Mean 0, variance 1, never beyond 3.5: the sum of four even draws.
double deviation(Draw& draw) {
  double sum = -2;
  for (int i = 0; i < 4; ++i) {
    sum += draw.unit();
  }
  return sum * std::sqrt(3.0);
}

}  // namespace

ExpertRisk::ExpertRisk(const ExpertShape& shape,
                       std::span<const double> loads,
                       double spread,
                       std::uint64_t seed)
    : shape_(shape),
      loads_(loads.begin(), loads.end()),
      spread_(spread),
      steps_(kSteps) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  Draw draw(seed);
  for (const double load : loads) {
    const double tokens = sum > 0 ? load / sum * kTokens : 0;
    const double away = std::clamp(spread * deviation(draw), -1.0, 1.0);
    for (std::size_t step = 0; step < kSteps; ++step) {
      steps_[step].push_back(static_cast<std::int32_t>(tokens * (1 + kDirections[step] * away)));
    }
  }
}

double ExpertRisk::of(std::span<const std::int32_t> expert_at) const {
  ExpertFill fill(shape_, expert_at, loads_);
  return of(fill);
}

double ExpertRisk::of(ExpertFill& fill) const {
  std::vector<std::int32_t> tokens(shape_.all_slots());
  double sum = 0;
  for (const auto& counts : steps_) {
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    const double most = fill.split(counts, tokens);
    sum += all > 0 ? most * shape_.ranks / all : 1;
  }
  return sum / static_cast<double>(steps_.size());
}

}  // namespace shoal
