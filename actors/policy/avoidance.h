// A node that could not go on with an attempt gets no other one for a while where there is a choice:
// it looks idle just because it fails fast, and each attempt of a request would go there again.
#pragma once

#include "schemas/units.h"

namespace shoal {

inline constexpr Nanos kAvoided = std::chrono::seconds(1);

}  // namespace shoal
