// Eight lanes of float or double in the compiler's own vector types, so that one source gives the same bits on every CPU.
//
// Vectors travel by reference only: passed by value they would depend on the ABI of the instruction set.
#pragma once

#include <cstdint>
#include <cstring>

namespace shoal::kernels::cpu {

inline constexpr int kLanes = 8;

using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Words = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));

// The accumulator of each SumPrecision: its vector and its scalar.
struct Single {
  using Scalar = float;
  using Vector = Floats;
};
struct Double {
  using Scalar = double;
  using Vector = Doubles;
};

[[gnu::always_inline]] inline void load(const float* p, Floats& v) { std::memcpy(&v, p, sizeof v); }

[[gnu::always_inline]] inline void load(const float* p, Doubles& v) {
  Floats f;
  std::memcpy(&f, p, sizeof f);
  v = __builtin_convertvector(f, Doubles);
}

[[gnu::always_inline]] inline void store(const Floats& v, float* p) { std::memcpy(p, &v, sizeof v); }

[[gnu::always_inline]] inline void store(const Doubles& v, float* p) {
  store(__builtin_convertvector(v, Floats), p);
}

// One fixed tree.
template <class Vector>
[[gnu::always_inline]] inline auto add_lanes(const Vector& v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace shoal::kernels::cpu
