// Measured values and what is said of them. The p-quantile is the value at place p (n - 1), rounded
// down, of the sorted values.
#pragma once

#include <cstddef>
#include <vector>

namespace shoal::sim {

class Samples {
 public:
  void add(double value);

  std::size_t size() const { return values_.size(); }

  // All 0 without values.
  double mean() const;
  double quantile(double p);

 private:
  std::vector<double> values_;
  bool sorted_ = false;
};

}  // namespace shoal::sim
