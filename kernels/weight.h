// A weight matrix exactly as the checkpoint stores it: a view on mapped bytes, never up-converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/formats.h"

namespace shoal::kernels {

enum class WeightFormat : std::uint8_t {
  kF32,
  kBf16,
  kFp8,  // E4M3, one UE8M0 scale per tile of 32 rows x 32 columns
  kFp4,  // E2M1, two per byte (even column in the low nibble), one UE8M0 scale per row and 32
         // columns
};

// rows x cols, row-major; y = W x has `rows` outputs. Owned by the checkpoint's mapping, which
// outlives every view.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* values = nullptr;
  const std::uint8_t* scales =
      nullptr;  // kFp8: [ceil(rows/32)][cols/32]; kFp4: [rows][cols/32]; else null

  bool is_quantized() const { return format == WeightFormat::kFp8 || format == WeightFormat::kFp4; }

  explicit operator bool() const { return values != nullptr; }
};

// Rows [first, first + count) as a weight of their own; of an FP8 weight, `first` must be a
// multiple of its tile.
constexpr Weight row_range(const Weight& w, std::int64_t first, std::int64_t count) {
  const std::int64_t row_bytes = w.format == WeightFormat::kF32    ? w.cols * 4
                                 : w.format == WeightFormat::kBf16 ? w.cols * 2
                                 : w.format == WeightFormat::kFp8  ? w.cols
                                                                   : w.cols / 2;
  const std::int64_t scale_rows = w.format == WeightFormat::kFp8 ? first / 32 : first;
  return Weight{w.format,
                count,
                w.cols,
                w.values + first * row_bytes,
                w.scales == nullptr ? nullptr : w.scales + scale_rows * (w.cols / 32)};
}

// One row of a bf16 weight. A mapped tensor may start at any byte, so rows are copied out, never
// pointed at.
inline void copy_bf16_row(const Weight& w, std::int64_t row, Bf16* out) {
  const auto bytes = static_cast<std::size_t>(w.cols) * sizeof(Bf16);
  std::memcpy(out, w.values + row * w.cols * static_cast<std::int64_t>(sizeof(Bf16)), bytes);
}

}  // namespace shoal::kernels
