// How the model's fp32 sums are computed.
#pragma once

#include <cstdint>

namespace shoal::kernels {

enum class SumPrecision : std::uint8_t {
  kSingle,  // the product
  kDouble,  // tests: every fp32 sum in double, rounded once, to compare with golden data
};

}  // namespace shoal::kernels
