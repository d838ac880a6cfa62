// Stored rows to floats and back, a row at a time, plus the scratch memory operators convert into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/formats.h"

namespace shoal::kernels::cpu {

// x need not be aligned: tensors of a mapped checkpoint start at any byte.
void widen(const Bf16* x, std::int64_t n, float* y);
void narrow(const float* x, std::int64_t n, Bf16* y);

// E4M3 codes with a UE8M0 byte per 32, rounded to bf16: window rows, Engram rows, and wo_a.
void decode_fp8_row(const std::uint8_t* codes,
                    const std::uint8_t* scales,
                    std::int64_t n,
                    float* y);
// Packed E2M1 with a UE8M0 byte per 32: index keys. The values are bf16 numbers.
void decode_index_row(const std::byte* row, std::int64_t n, float* y);
// Packed E2M1 with an E4M3 scale per 16: main KV entries. The values are bf16 numbers.
void decode_main_row(const std::byte* row, std::int64_t n, float* y);

// Value of codes of a narrow float format without its sign; U is an unsigned 32-bit integer or a
// vector of them, F likewise. NaN codes, which no checkpoint holds, read as the next larger number.
template <int kMantissa, int kBias, class U, class F>
[[gnu::always_inline]] inline void decode_magnitude(const U& code, F& value) {
  constexpr std::uint32_t kOne = 1u << 23;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  const U shifted = code << (23 - kMantissa);
  const U subnormal = 0u - ((shifted - kOne) >> 31);  // all ones where the exponent field is zero
  // A subnormal is read one binade up, where its missing leading one can be subtracted exactly.
  value = __builtin_bit_cast(F, shifted + kRebias + (subnormal & kOne)) -
          __builtin_bit_cast(F, subnormal & (kRebias + kOne));
}

// A buffer of at least `size` floats; contents are not kept. One per thread and purpose.
inline float* reserve(std::vector<float>& buffer, std::int64_t size) {
  if (buffer.size() < static_cast<std::size_t>(size)) {
    buffer.resize(static_cast<std::size_t>(size));
  }
  return buffer.data();
}

}  // namespace shoal::kernels::cpu
