// What one decision of a policy costs.
#pragma once

#include <functional>

namespace shoal::tools {

// Nanoseconds of one call: the median of many batches, so that who shares the core does not count.
double decision_ns(const std::function<void()>& decide);

}  // namespace shoal::tools
