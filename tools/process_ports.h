// The clocks and the randomness of a real process.
#pragma once

#include <cstdint>

#include "schemas/units.h"

namespace shoal::tools {

Instant monotonic_now();
std::int64_t unix_seconds_now();
std::uint64_t random_seed();

}  // namespace shoal::tools
