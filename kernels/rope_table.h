// Rotation frequencies of RoPE, plain or stretched by YaRN (model spec 3.5, general form).
// Bit-exact with the reference.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/model/config.h"

namespace shoal::kernels {

// fp32 [dim/2] for adjacent pairs. yarn = nullptr: no stretching.
std::vector<float> rope_frequencies(std::int64_t dim,
                                    double base,
                                    const YarnConfig* yarn = nullptr);

}  // namespace shoal::kernels
