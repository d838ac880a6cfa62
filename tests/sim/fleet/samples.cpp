// Sorts when it is asked, once.
#include "tests/sim/fleet/samples.h"

#include <algorithm>
#include <numeric>

namespace shoal::sim {

void Samples::add(double value) {
  values_.push_back(value);
  sorted_ = false;
}

double Samples::mean() const {
  const double sum = std::accumulate(values_.begin(), values_.end(), 0.0);
  return values_.empty() ? 0 : sum / static_cast<double>(values_.size());
}

double Samples::quantile(double p) {
  if (values_.empty()) {
    return 0;
  }
  if (!sorted_) {
    std::sort(values_.begin(), values_.end());
    sorted_ = true;
  }
  return values_[static_cast<std::size_t>(p * static_cast<double>(values_.size() - 1))];
}

}  // namespace shoal::sim
