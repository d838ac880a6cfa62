// Lanes of float or double in the compiler's own vector types, so that one source gives the same
// bits on every CPU.
//
// Vectors travel by reference only: passed by value they would depend on the ABI of the instruction
// set.
#pragma once

#include <cstdint>
#include <cstring>

namespace shoal::kernels::cpu {

inline constexpr int kLanes = 8;  // of float; four of double fill the same register

using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using HalfFloats = float __attribute__((vector_size(kLanes / 2 * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes / 2 * sizeof(double))));
using Bytes8 = std::uint8_t __attribute__((vector_size(kLanes)));
using Shorts8 = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
using Words = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));

// The accumulator of each SumPrecision.
struct Single {
  using Scalar = float;
  using Vector = Floats;
  static constexpr int kWidth = kLanes;
};

struct Double {
  using Scalar = double;
  using Vector = Doubles;
  static constexpr int kWidth = kLanes / 2;
};

[[gnu::always_inline]] inline void load(const float* p, Floats& v) {
  std::memcpy(&v, p, sizeof v);
}

[[gnu::always_inline]] inline void load(const float* p, Doubles& v) {
  HalfFloats f;
  std::memcpy(&f, p, sizeof f);
  v = __builtin_convertvector(f, Doubles);
}

[[gnu::always_inline]] inline void store(const Floats& v, float* p) {
  std::memcpy(p, &v, sizeof v);
}

[[gnu::always_inline]] inline void store(const Doubles& v, float* p) {
  const HalfFloats f = __builtin_convertvector(v, HalfFloats);
  std::memcpy(p, &f, sizeof f);
}

// One fixed tree each.
[[gnu::always_inline]] inline float add_lanes(const Floats& v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

[[gnu::always_inline]] inline double add_lanes(const Doubles& v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}

}  // namespace shoal::kernels::cpu
