// Roles and worlds that several tests of clusters start from.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/sim/world.h"

namespace shoal::sim {

inline constexpr NodeRoles kFront{.gateway = true, .router = true};
inline constexpr NodeRoles kGateway{.gateway = true};
inline constexpr NodeRoles kRouter{.router = true};
inline constexpr NodeRoles kPrefill{.prefill = true};
inline constexpr NodeRoles kDecode{.decode = true};

inline WorldSetup setup_of(std::vector<NodeRoles> nodes, std::uint64_t seed) {
  WorldSetup setup;
  setup.nodes = std::move(nodes);
  setup.seed = seed;
  return setup;
}

}  // namespace shoal::sim
