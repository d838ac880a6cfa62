// Row decoders. The loops are plain so that the compiler vectorises them; every step is exact, so the width does not matter.
#include "kernels/cpu/decode.h"

namespace shoal::kernels::cpu {

namespace {

[[gnu::always_inline]] inline float e4m3_value(std::uint32_t code) {
  float magnitude = 0;
  decode_magnitude<3, 7>(code & 0x7Fu, magnitude);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | ((code & 0x80u) << 24));
}

[[gnu::always_inline]] inline float e2m1_value(std::uint32_t code) {
  float magnitude = 0;
  decode_magnitude<1, 1>(code & 7u, magnitude);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | ((code & 8u) << 28));
}

// 2 * pairs values; the even one sits in the low nibble.
[[gnu::always_inline]] inline void decode_fp4_group(const std::byte* packed, int pairs, float scale, float* y) {
  for (int i = 0; i < pairs; ++i) {
    const auto byte = static_cast<std::uint32_t>(packed[i]);
    y[2 * i] = e2m1_value(byte & 15u) * scale;
    y[2 * i + 1] = e2m1_value(byte >> 4) * scale;
  }
}

}  // namespace

[[gnu::target_clones("avx2", "default")]] void widen(const Bf16* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = to_float(x[i]);
  }
}

[[gnu::target_clones("avx2", "default")]] void narrow(const float* x, std::int64_t n, Bf16* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = to_bf16(x[i]);
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_fp8_row(const std::uint8_t* codes,
                                                              const std::uint8_t* scales,
                                                              std::int64_t n,
                                                              float* y) {
  for (std::int64_t g = 0; g < n / kGroup; ++g) {
    const float scale = ue8m0(scales[g]);
    for (int i = 0; i < kGroup; ++i) {
      y[g * kGroup + i] = round_bf16(e4m3_value(codes[g * kGroup + i]) * scale);
    }
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_index_row(const std::byte* row, std::int64_t n, float* y) {
  const std::byte* scales = row + n / 2;
  for (std::int64_t g = 0; g < n / kGroup; ++g) {
    decode_fp4_group(row + g * kGroup / 2, kGroup / 2, ue8m0(static_cast<std::uint8_t>(scales[g])), y + g * kGroup);
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_main_row(const std::byte* row, std::int64_t n, float* y) {
  const std::byte* scales = row + n / 2;
  for (std::int64_t g = 0; g < n / kMainGroup; ++g) {
    const float scale = kE4m3[static_cast<std::size_t>(scales[g])];
    decode_fp4_group(row + g * kMainGroup / 2, kMainGroup / 2, scale, y + g * kMainGroup);
  }
}

}  // namespace shoal::kernels::cpu
