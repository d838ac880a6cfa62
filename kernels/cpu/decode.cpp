// Row decoders. Every step is exact, so the width of the vectors does not matter.
#include "kernels/cpu/decode.h"

#include <cstring>

#include "kernels/cpu/vector.h"

namespace shoal::kernels::cpu {

namespace {

// 8 codes -> values times scale, rounded to bf16 (it matters only where the product is subnormal).
[[gnu::always_inline]] inline void decode_fp8_8(const std::uint8_t* codes, float scale, float* y) {
  Bytes8 bytes;
  std::memcpy(&bytes, codes, sizeof bytes);
  const Words code = __builtin_convertvector(bytes, Words);
  Floats value;
  decode_magnitude<3, 7>(code & 0x7Fu, value);
  value =
      __builtin_bit_cast(Floats, __builtin_bit_cast(Words, value) | ((code & 0x80u) << 24)) * scale;
  const Words bits = __builtin_bit_cast(Words, value);
  const Words rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u;
  store(__builtin_bit_cast(Floats, rounded), y);
}

[[gnu::always_inline]] inline void decode_e2m1(const Words& code, float scale, Floats& value) {
  decode_magnitude<1, 1>(code & 7u, value);
  value =
      __builtin_bit_cast(Floats, __builtin_bit_cast(Words, value) | ((code & 8u) << 28)) * scale;
}

// 16 values from 8 bytes; the even one of a byte sits in the low nibble.
[[gnu::always_inline]] inline void decode_fp4_16(const std::byte* packed, float scale, float* y) {
  Bytes8 bytes;
  std::memcpy(&bytes, packed, sizeof bytes);
  const Words pairs = __builtin_convertvector(bytes, Words);
  Floats even;
  Floats odd;
  decode_e2m1(pairs & 15u, scale, even);
  decode_e2m1(pairs >> 4, scale, odd);
  store(__builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11), y);
  store(__builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15), y + kLanes);
}

}  // namespace

[[gnu::target_clones("avx2", "default")]] void widen(const Bf16* x, std::int64_t n, float* y) {
  const auto* bytes = reinterpret_cast<const std::byte*>(x);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Shorts8 bits;
    std::memcpy(&bits, bytes + i * 2, sizeof bits);
    store(__builtin_bit_cast(Floats, __builtin_convertvector(bits, Words) << 16), y + i);
  }
  for (; i < n; ++i) {
    Bf16 value;
    std::memcpy(&value, bytes + i * 2, sizeof value);
    y[i] = to_float(value);
  }
}

[[gnu::target_clones("avx2", "default")]] void narrow(const float* x, std::int64_t n, Bf16* y) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Words bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const Words rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const Words nan = Words((bits & 0x7FFFFFFFu) > 0x7F800000u);
    const Shorts8 narrowed = __builtin_convertvector((rounded & ~nan) | (0x7FC0u & nan), Shorts8);
    std::memcpy(reinterpret_cast<std::byte*>(y + i), &narrowed, sizeof narrowed);
  }
  for (; i < n; ++i) {
    y[i] = to_bf16(x[i]);
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_fp8_row(const std::uint8_t* codes,
                                                              const std::uint8_t* scales,
                                                              std::int64_t n,
                                                              float* y) {
  for (std::int64_t g = 0; g < n / kGroup; ++g) {
    const float scale = ue8m0(scales[g]);
    for (std::int64_t i = g * kGroup; i < (g + 1) * kGroup; i += kLanes) {
      decode_fp8_8(codes + i, scale, y + i);
    }
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_index_row(const std::byte* row,
                                                                std::int64_t n,
                                                                float* y) {
  const std::byte* scales = row + n / 2;
  for (std::int64_t i = 0; i < n; i += 16) {
    decode_fp4_16(row + i / 2, ue8m0(static_cast<std::uint8_t>(scales[i / kGroup])), y + i);
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_main_row(const std::byte* row,
                                                               std::int64_t n,
                                                               float* y) {
  const std::byte* scales = row + n / 2;
  for (std::int64_t i = 0; i < n; i += kMainGroup) {
    decode_fp4_16(row + i / 2, kE4m3[static_cast<std::size_t>(scales[i / kMainGroup])], y + i);
  }
}

}  // namespace shoal::kernels::cpu
