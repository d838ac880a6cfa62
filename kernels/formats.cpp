// Encoders and group quantisers, bit-exact with the reference (model spec 3.0): scales come from
// exponent bits, never from log2.
#include "kernels/formats.h"

namespace shoal::kernels {

namespace {

// Code of |x| in a format with kMantissa bits after the point and exponent bias kBias: nearest
// even, saturating at `largest`.
template <int kMantissa, int kBias>
[[gnu::always_inline]] inline std::uint32_t encode_magnitude(float x, float largest) {
  constexpr int kShift = 23 - kMantissa;
  constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  // Adding a power of two whose ulp is the subnormal step rounds to multiples of that step.
  constexpr std::uint32_t kStepBits = static_cast<std::uint32_t>(128 - kBias - kMantissa + 23)
                                      << 23;
  const float magnitude = std::fabs(x) < largest ? std::fabs(x) : largest;
  const auto u = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(magnitude + std::bit_cast<float>(kStepBits)) - kStepBits;
  const std::uint32_t rounded = u + ((1u << (kShift - 1)) - 1u) + ((u >> kShift) & 1u);
  const std::uint32_t normal =
      (rounded >> kShift) - (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
  return u < kSmallestNormal ? subnormal : normal;
}

[[gnu::always_inline]] inline std::uint8_t e4m3_code(float x) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) >> 31;
  return static_cast<std::uint8_t>(encode_magnitude<3, 7>(x, 448.0F) | (sign << 7));
}

[[gnu::always_inline]] inline std::uint8_t e2m1_code(float x) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) >> 31;
  return static_cast<std::uint8_t>(encode_magnitude<1, 1>(x, 6.0F) | (sign << 3));
}

// By bits, which grow with the magnitude: unlike numbers they may be compared in any order. What is
// no number counts as 0.
[[gnu::always_inline]] inline float largest_magnitude(const float* x, int n, float floor) {
  auto largest = std::bit_cast<std::uint32_t>(floor);
  for (int i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
    const std::uint32_t magnitude = bits > 0x7F800000u ? 0 : bits;
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest);
}

// UE8M0 byte of 2^ceil(log2(fl32(amax * inverse))), read off the bits.
inline std::uint8_t power_scale(float amax, float inverse) {
  const auto bits = std::bit_cast<std::uint32_t>(amax * inverse);
  return static_cast<std::uint8_t>((bits >> 23) + ((bits & 0x7FFFFFu) != 0 ? 1u : 0u));
}

// 1 / 2^(scale - 127), exact. Scales of the quantisers lie in 1 .. 253 for finite input; above that
// the input was not finite.
inline float inverse_power(std::uint8_t scale) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale < 254 ? 254 - scale : 0) << 23);
}

}  // namespace

std::uint8_t e4m3_encode(float x) {
  return e4m3_code(x);
}

std::uint8_t e2m1_encode(float x) {
  return e2m1_code(x);
}

// Multiplying by the exact inverse of a power of two equals the division the model does.
[[gnu::target_clones("avx2", "default")]] std::uint8_t quantize_group_q8(const float* x,
                                                                         std::uint8_t* codes) {
  const std::uint8_t scale = power_scale(largest_magnitude(x, kGroup, 1e-4F), 1.0F / 448.0F);
  const float inverse = inverse_power(scale);
  for (int i = 0; i < kGroup; ++i) {
    codes[i] = e4m3_code(x[i] * inverse);
  }
  return scale;
}

[[gnu::target_clones("avx2", "default")]] std::uint8_t quantize_group_q4(const float* x,
                                                                         std::uint8_t* codes) {
  const std::uint8_t scale = power_scale(largest_magnitude(x, kGroup, 0x1.8p-124F), 1.0F / 6.0F);
  const float inverse = inverse_power(scale);
  for (int i = 0; i < kGroup; ++i) {
    codes[i] = e2m1_code(x[i] * inverse);
  }
  return scale;
}

// Real divisions here, by 6 and by the scale.
[[gnu::target_clones("avx2", "default")]] std::uint8_t quantize_group_q4kv(const float* x,
                                                                           std::uint8_t* codes) {
  const std::uint8_t scale = e4m3_code(largest_magnitude(x, kMainGroup, 0x1.8p-7F) / 6.0F);
  const float divisor = kE4m3[scale];
  for (int i = 0; i < kMainGroup; ++i) {
    codes[i] = e2m1_code(x[i] / divisor);
  }
  return scale;
}

}  // namespace shoal::kernels
