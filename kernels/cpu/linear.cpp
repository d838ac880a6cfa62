// Matrix products: of quantised weights a few rows at a time by the machine's best kernels
// (lane_kernels.h), of bf16 and fp32 ones a row at a time. Either way a row's sums do not depend
// on how many rows the call has.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/lane_kernels.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

namespace {

// Rows of x at a time: of 4096 columns they fit the second cache, and their sums the first.
constexpr std::int64_t kStripRows = 64;
// Weight rows whose sums are put away together, whole tiles.
constexpr std::int64_t kPutRows = 64;

// The rows of x, their scales applied, in the order of columns in which the weight's codes are met.
LaneRows spread(
    WeightFormat format, QuantRows x, std::int64_t n, std::int64_t k, std::vector<float>& buffer) {
  float* values = reserve(buffer, n * k);
  for (std::int64_t block = 0; block < n * k / kGroup; ++block) {
    const float scale = ue8m0(x.scales[block]);
    const std::uint8_t* codes = x.codes + block * kGroup;
    float* out = values + block * kGroup;
    for (int j = 0; j < kGroup; ++j) {
      const int place = format == WeightFormat::kFp4 ? (j % 2 * kLaneCount + j / 2) : j;
      out[place] = kE4m3[codes[j]] * scale;
    }
  }
  return {values, n, k};
}

std::int64_t row_bytes(const Weight& w) {
  switch (w.format) {
    case WeightFormat::kF32:
      return 4 * w.cols;
    case WeightFormat::kBf16:
      return 2 * w.cols;
    case WeightFormat::kFp8:
      return w.cols;
    case WeightFormat::kFp4:
      break;
  }
  return w.cols / 2;
}

const std::uint8_t* row_codes(const Weight& w, std::int64_t row) {
  return reinterpret_cast<const std::uint8_t*>(w.values) + row * row_bytes(w);
}

const std::uint8_t* row_scales(const Weight& w, std::int64_t row) {
  return w.scales + (w.format == WeightFormat::kFp8 ? row / kGroup : row) * (w.cols / kGroup);
}

std::int64_t whole_blocks(std::int64_t columns) {
  return (columns + kGroup - 1) / kGroup * kGroup;
}

// Tiles of a weight. Rows whose last block is not whole are copied, with zeros behind them.
class TileReader {
 public:
  explicit TileReader(const Weight& w)
      : w_(w),
        padded_row_(row_bytes(w) / std::max<std::int64_t>(w.cols, 1) * whole_blocks(w.cols)),
        padded_(w.cols % kGroup == 0 ? 0 : static_cast<std::size_t>(kTileRows * padded_row_)) {}

  // Rows first .. first + 3; those beyond the matrix repeat its last one.
  WeightTile read(std::int64_t first) {
    WeightTile tile{};
    for (int r = 0; r < kTileRows; ++r) {
      const std::int64_t row = std::min(first + r, w_.rows - 1);
      tile.codes[r] = row_codes(w_, row);
      if (w_.is_quantized()) {
        tile.scales[r] = row_scales(w_, row);
      }
      if (!padded_.empty()) {
        std::uint8_t* copy = padded_.data() + r * padded_row_;
        std::memcpy(copy, tile.codes[r], static_cast<std::size_t>(row_bytes(w_)));
        tile.codes[r] = copy;
      }
    }
    return tile;
  }

 private:
  const Weight& w_;
  std::int64_t padded_row_;
  std::vector<std::uint8_t> padded_;
};

MultiplyTile kernel_of(const LaneKernels& kernels, WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return kernels.f32;
    case WeightFormat::kBf16:
      return kernels.bf16;
    case WeightFormat::kFp8:
      return kernels.fp8;
    case WeightFormat::kFp4:
      break;
  }
  return kernels.fp4;
}

// put(i, row, sums, count) with the sums of `count` weight rows from `row` on and row i of x, for
// all rows of x and the weight rows [begin, end), `begin` a tile's first.
template <class Put>
void multiply_tiles(const LaneKernels& kernels,
                    const Weight& w,
                    std::int64_t begin,
                    std::int64_t end,
                    const LaneRows& x,
                    const Put& put) {
  thread_local std::vector<float> buffer;
  const std::int64_t strip = std::min(kStripRows, x.n);
  float* sums = reserve(buffer, strip * (kTileRows * (kLaneCount + 1) + kPutRows));
  float* running = sums + strip * kTileRows;
  float* outputs = running + strip * kTileRows * kLaneCount;
  const MultiplyTile multiply = kernel_of(kernels, w.format);
  TileReader reader(w);
  for (std::int64_t i = 0; i < x.n; i += kStripRows) {
    const LaneRows rows{x.values + i * x.k, std::min(kStripRows, x.n - i), x.k};
    for (std::int64_t first = begin; first < end; first += kPutRows) {
      const std::int64_t count = std::min(kPutRows, end - first);
      for (std::int64_t tile = 0; tile < count; tile += kTileRows) {
        multiply(reader.read(first + tile), rows, running, sums);
        for (std::int64_t r = 0; r < rows.n; ++r) {
          std::copy_n(sums + r * kTileRows, kTileRows, outputs + r * kPutRows + tile);
        }
      }
      for (std::int64_t r = 0; r < rows.n; ++r) {
        put(i + r, first, outputs + r * kPutRows, count);
      }
    }
  }
}

// x [n][k] as floats, with zeros behind a row whose last block is not whole.
LaneRows widen_rows(const Bf16* x,
                    std::int64_t stride,
                    std::int64_t n,
                    std::int64_t k,
                    std::vector<float>& buffer) {
  const std::int64_t padded = whole_blocks(k);
  float* values = reserve(buffer, n * padded);
  for (std::int64_t i = 0; i < n; ++i) {
    widen(x + i * stride, k, values + i * padded);
    std::fill(values + i * padded + k, values + (i + 1) * padded, 0.0F);
  }
  return {values, n, padded};
}

// A row's codes as floats, without their scales.
const float* plain_codes(const Weight& w, std::int64_t row, std::vector<float>& buffer) {
  const std::uint8_t* codes = row_codes(w, row);
  float* values = reserve(buffer, w.cols);
  for (std::int64_t j = 0; j < w.cols; ++j) {
    values[j] =
        w.format == WeightFormat::kFp8 ? kE4m3[codes[j]] : kE2m1[codes[j / 2] >> (j % 2 * 4) & 15];
  }
  return values;
}

// With exact sums (model spec 3.1): each block's sum is rounded to fp32, then scaled, then added.
void multiply_exactly(const Weight& w,
                      std::int64_t begin,
                      std::int64_t end,
                      const float* x_codes,
                      const std::uint8_t* x_scales,
                      std::int64_t n,
                      Bf16* y) {
  thread_local std::vector<float> buffer;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* codes = plain_codes(w, row, buffer);
    const std::uint8_t* scales = row_scales(w, row);
    for (std::int64_t i = 0; i < n; ++i) {
      float total = 0;
      for (std::int64_t block = 0; block < w.cols / kGroup; ++block) {
        const float sum = dot(SumPrecision::kDouble,
                              x_codes + i * w.cols + block * kGroup,
                              codes + block * kGroup,
                              kGroup);
        total += sum * ue8m0(x_scales[i * (w.cols / kGroup) + block]) * ue8m0(scales[block]);
      }
      y[i * w.rows + row] = to_bf16(total);
    }
  }
}

// Row `row` as floats. Copied even if it is fp32: a tensor of a mapped file may start at any byte.
const float* weight_row(const Weight& w, std::int64_t row, std::vector<float>& buffer) {
  const std::uint8_t* values = row_codes(w, row);
  float* floats = reserve(buffer, w.cols);
  if (w.format == WeightFormat::kF32) {
    std::memcpy(floats, values, static_cast<std::size_t>(w.cols) * sizeof(float));
  } else if (w.format == WeightFormat::kBf16) {
    widen(reinterpret_cast<const Bf16*>(values), w.cols, floats);
  } else {
    decode_fp8_row(values, row_scales(w, row), w.cols, floats);
  }
  return floats;
}

// The same of weight rows as floats, with exact sums.
template <class Put>
void multiply_rows_exactly(
    const Weight& w, std::int64_t begin, std::int64_t end, const LaneRows& x, const Put& put) {
  thread_local std::vector<float> buffer;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* weights = weight_row(w, row, buffer);
    for (std::int64_t i = 0; i < x.n; ++i) {
      const float sum = dot(SumPrecision::kDouble, x.values + i * x.k, weights, w.cols);
      put(i, row, &sum, 1);
    }
  }
}

}  // namespace

void CpuOps::quantize(const Bf16* x, std::int64_t n, std::int64_t k, QuantRows out) const {
  CHECK(k % kGroup == 0);
  split(n * k / kGroup, 4 * kGroup, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      float values[kGroup];
      widen(x + g * kGroup, kGroup, values);
      out.scales[g] = quantize_group_q8(values, out.codes + g * kGroup);
    }
  });
}

// body(begin, end) over shares of w's rows, each `begin` a tile's first.
template <class Body>
void CpuOps::split_tiles(const Weight& w, std::int64_t n, const Body& body) const {
  const std::int64_t tiles = (w.rows + kTileRows - 1) / kTileRows;
  split(tiles, kTileRows * w.cols * (n + 8) / 8, [&](std::int64_t begin, std::int64_t end) {
    body(begin * kTileRows, std::min(end * kTileRows, w.rows));
  });
}

void CpuOps::linear_quantized(const Weight& w, QuantRows x, std::int64_t n, Bf16* y) const {
  CHECK(w.is_quantized() && w.cols % kGroup == 0);
  thread_local std::vector<float> buffer;
  if (precision_ == SumPrecision::kDouble) {
    float* codes = reserve(buffer, n * w.cols);
    for (std::int64_t j = 0; j < n * w.cols; ++j) {
      codes[j] = kE4m3[x.codes[j]];
    }
    split(w.rows, w.cols * (n + 1), [&](std::int64_t begin, std::int64_t end) {
      multiply_exactly(w, begin, end, codes, x.scales, n, y);
    });
    return;
  }
  split_tiles(w, n, [&, rows = spread(w.format, x, n, w.cols, buffer)](auto begin, auto end) {
    multiply_tiles(lanes_, w, begin, end, rows, [&](auto i, auto row, auto* sums, auto count) {
      narrow(sums, count, y + i * w.rows + row);
    });
  });
}

template <class Put>
void CpuOps::multiply_bf16(
    const Weight& w, const Bf16* x, std::int64_t x_stride, std::int64_t n, const Put& put) const {
  thread_local std::vector<float> buffer;
  const LaneRows rows = widen_rows(x, x_stride, n, w.cols, buffer);
  split_tiles(w, n, [&](std::int64_t begin, std::int64_t end) {
    if (precision_ == SumPrecision::kDouble) {
      multiply_rows_exactly(w, begin, end, rows, put);
    } else {
      multiply_tiles(lanes_, w, begin, end, rows, put);
    }
  });
}

void CpuOps::linear_bf16(const Weight& w,
                         const Bf16* x,
                         std::int64_t x_stride,
                         std::int64_t n,
                         Bf16* y,
                         std::int64_t y_stride) const {
  CHECK(w.format != WeightFormat::kFp4);
  multiply_bf16(w, x, x_stride, n, [&](auto i, auto row, const float* sums, auto count) {
    narrow(sums, count, y + i * y_stride + row);
  });
}

void CpuOps::linear_f32(const Weight& w, const Bf16* x, std::int64_t n, float* y) const {
  CHECK(!w.is_quantized());
  multiply_bf16(w, x, w.cols, n, [&](auto i, auto row, const float* sums, auto count) {
    std::copy_n(sums, count, y + i * w.rows + row);
  });
}

}  // namespace shoal::kernels::cpu
