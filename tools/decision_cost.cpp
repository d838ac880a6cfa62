// Batches long enough for the clock, and their median.
#include "tools/decision_cost.h"

#include <chrono>

#include "tests/sim/fleet/samples.h"
#include "tools/process_ports.h"

namespace shoal::tools {

double decision_ns(const std::function<void()>& decide) {
  constexpr int kBatches = 201;
  constexpr int kCalls = 500;
  sim::Samples batches;
  for (int b = 0; b < kBatches; ++b) {
    const Instant began = monotonic_now();
    for (int c = 0; c < kCalls; ++c) {
      decide();
    }
    const Nanos took = monotonic_now() - began;
    batches.add(static_cast<double>(took.count()) / kCalls);
  }
  return batches.quantile(0.5);
}

}  // namespace shoal::tools
