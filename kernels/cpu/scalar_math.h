// The model's fp32 functions: computed in double, rounded once, independent of the C library.
#pragma once

#include <cmath>

#include "kernels/portable_math.h"

namespace shoal::kernels::cpu {

inline float exp_float(float x) {
  return static_cast<float>(portable::exp(static_cast<double>(x)));
}

inline float sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + portable::exp(-static_cast<double>(x))));
}

// sqrt(log(1 + e^x)); above 20 the logarithm equals x in fp32.
inline float sqrt_softplus(float x) {
  const float soft =
      x > 20.0F ? x : static_cast<float>(portable::log1p(portable::exp(static_cast<double>(x))));
  return std::sqrt(soft);
}

// sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6))); the sign of zero counts.
inline float engram_gate(float dot) {
  const float magnitude = std::fabs(dot) > 1e-6F ? std::fabs(dot) : 1e-6F;
  return sigmoid(std::copysign(std::sqrt(magnitude), dot));
}

}  // namespace shoal::kernels::cpu
