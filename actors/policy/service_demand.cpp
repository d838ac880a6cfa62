// A step takes longer with every answer, so the fullest one is found by bisection.
#include "actors/policy/service_demand.h"

#include <algorithm>

namespace shoal {

Nanos token_work(const CostModel& cost, Position context, std::int64_t most, Nanos target) {
  std::int64_t fits = 1;
  std::int64_t beyond = std::max<std::int64_t>(most, 1) + 1;
  while (beyond - fits > 1) {
    const std::int64_t answers = fits + (beyond - fits) / 2;
    (cost.decode_step(answers, answers * context) <= target ? fits : beyond) = answers;
  }
  return cost.decode_step(fits, fits * context) / fits;
}

}  // namespace shoal
