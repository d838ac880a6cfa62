// What the layers of a group of expert shards were given between two looks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/expert_dispatch.h"

namespace shoal {

struct ExpertWindow {
  std::vector<ExpertTraffic> layers;
  std::int64_t steps = 0;
  std::int64_t rows = 0;  // of the layer that got most
};

// Both since the start; the earlier may be empty.
ExpertWindow window_between(std::span<const ExpertTraffic> before,
                            std::span<const ExpertTraffic> now);

}  // namespace shoal
