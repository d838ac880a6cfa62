// Number formats of the model and the layout of what the caches store (model spec 3.0, 2.2). Values
// by code, no arithmetic policy.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shoal::kernels {

// A bfloat16 value: the upper half of a float's bits.
struct Bf16 {
  std::uint16_t bits = 0;

  friend bool operator==(Bf16, Bf16) = default;
};

inline float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// Nearest even; NaN becomes the quiet NaN 0x7FC0.
inline Bf16 to_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) {
    return Bf16{0x7FC0};
  }
  return Bf16{static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

inline float round_bf16(float x) {
  return to_float(to_bf16(x));
}

// OCP E4M3 "fn": 0x7F and 0xFF are NaN, no infinities, largest 448.
constexpr std::array<float, 256> make_e4m3_table() {
  std::array<float, 256> table{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    const int mantissa = code & 7;
    float magnitude = exponent == 0 ? static_cast<float>(mantissa) / 512.0F
                                    : 1.0F + static_cast<float>(mantissa) / 8.0F;
    for (int e = exponent; exponent != 0 && e < 7; ++e) {
      magnitude /= 2.0F;
    }
    for (int e = 7; e < exponent; ++e) {
      magnitude *= 2.0F;
    }
    if ((code & 0x7F) == 0x7F) {
      magnitude = std::numeric_limits<float>::quiet_NaN();
    }
    table[static_cast<std::size_t>(code)] = (code & 0x80) != 0 ? -magnitude : magnitude;
  }
  return table;
}

inline constexpr std::array<float, 256> kE4m3 = make_e4m3_table();
inline constexpr std::array<float, 16> kE2m1 = {0.0F,
                                                0.5F,
                                                1.0F,
                                                1.5F,
                                                2.0F,
                                                3.0F,
                                                4.0F,
                                                6.0F,
                                                -0.0F,
                                                -0.5F,
                                                -1.0F,
                                                -1.5F,
                                                -2.0F,
                                                -3.0F,
                                                -4.0F,
                                                -6.0F};

// UE8M0 byte b is 2^(b-127); b = 0 is the subnormal 2^-127, 255 is NaN.
inline float ue8m0(std::uint8_t b) {
  if (b == 255) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return b == 0 ? std::bit_cast<float>(0x00400000u)
                : std::bit_cast<float>(static_cast<std::uint32_t>(b) << 23);
}

// Nearest even, saturating at the largest value, sign of zero kept.
std::uint8_t e4m3_encode(float x);
std::uint8_t e2m1_encode(float x);

// Quantiser groups along the last axis (model spec 3.0).
inline constexpr int kGroup =
    32;  // q8 (activations, window rows) and q4 (index keys): one UE8M0 scale per 32
inline constexpr int kMainGroup = 16;  // q4kv (main KV): one E4M3 scale per 16

// q8 of one group of 32: codes and the UE8M0 byte of the scale.
std::uint8_t quantize_group_q8(const float* x, std::uint8_t* codes);
// q4 of one group of 32: E2M1 codes (not packed) and the UE8M0 byte of the scale.
std::uint8_t quantize_group_q4(const float* x, std::uint8_t* codes);
// q4kv of one group of 16: E2M1 codes (not packed) and the E4M3 byte of the scale.
std::uint8_t quantize_group_q4kv(const float* x, std::uint8_t* codes);

// Bytes of one cached row of `dim` elements. Layout of each: codes first, then scales.
constexpr std::int64_t window_row_bytes(std::int64_t dim) {
  return dim + dim / kGroup;
}  // 528 for 512

constexpr std::int64_t main_row_bytes(std::int64_t dim) {
  return dim / 2 + dim / kMainGroup;
}  // 288 for 512

constexpr std::int64_t index_row_bytes(std::int64_t dim) {
  return dim / 2 + dim / kGroup;
}  // 68 for 128

}  // namespace shoal::kernels
