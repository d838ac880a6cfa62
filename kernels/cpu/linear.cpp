// Matrix products. A quantised weight is decoded in tiles of 16 rows x 32 columns and applied to
// every row of the call; bf16 and fp32 weights a row at a time. Either way a row's sums do not
// depend on how many rows the call has.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/vector.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

namespace {

constexpr int kTileRows = 16;
// Rows of x per pass over a tile: their sums (4 KiB) stay in the L1 cache.
constexpr std::int64_t kStripRows = 64;

// One block of 32 columns of 16 weight rows, transposed so that lanes are weight rows, and the
// rows' scales.
struct Tile {
  alignas(32) float values[kGroup][kTileRows];
  alignas(32) float scales[kTileRows];
};

// The rows of one call as floats: codes without their scales [n][k], and the scales [n][k/32].
struct QuantFloats {
  const float* values = nullptr;
  const float* scales = nullptr;
  std::int64_t k = 0;
};

using Bytes16 = std::uint8_t __attribute__((vector_size(16)));

// 16 x 16 bytes in place: four rounds of perfect shuffles.
[[gnu::always_inline]] inline void transpose(Bytes16 (&m)[16]) {
  for (int round = 0; round < 4; ++round) {
    Bytes16 t[16];
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = __builtin_shufflevector(
          m[i], m[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      t[2 * i + 1] = __builtin_shufflevector(
          m[i], m[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(m, t, sizeof t);
  }
}

// 16 codes (low bits of each byte after `shift`) -> 16 floats.
template <int kMantissa, int kBias, int kSign>
[[gnu::always_inline]] inline void decode_column(const Bytes16& codes, int shift, float* y) {
  for (int half = 0; half < kTileRows; half += kLanes) {
    Bytes8 bytes;
    std::memcpy(&bytes, reinterpret_cast<const char*>(&codes) + half, sizeof bytes);
    const Words code = __builtin_convertvector(bytes, Words) >> static_cast<std::uint32_t>(shift);
    const Words magnitude = code & ((1u << kSign) - 1u);
    Floats value;
    decode_magnitude<kMantissa, kBias>(magnitude, value);
    const Words sign = ((code >> kSign) & 1u) << 31;
    value = __builtin_bit_cast(Floats, __builtin_bit_cast(Words, value) | sign);
    store(value, y + half);
  }
}

// First bytes of the tile's rows; rows beyond the matrix repeat the last one and are not stored
// later.
using RowBytes = const std::uint8_t* [kTileRows];

[[gnu::always_inline]] inline void load_columns(const RowBytes& rows,
                                                std::int64_t offset,
                                                Bytes16 (&m)[16]) {
  for (int r = 0; r < kTileRows; ++r) {
    std::memcpy(&m[r], rows[r] + offset, sizeof m[r]);
  }
  transpose(m);
}

[[gnu::target_clones("avx2", "default")]] void decode_fp8(const RowBytes& rows,
                                                          std::int64_t block,
                                                          Tile& tile) {
  for (int half = 0; half < 2; ++half) {
    Bytes16 columns[16];
    load_columns(rows, block * kGroup + half * 16, columns);
    for (int j = 0; j < 16; ++j) {
      decode_column<3, 7, 7>(columns[j], 0, tile.values[half * 16 + j]);
    }
  }
}

[[gnu::target_clones("avx2", "default")]] void decode_fp4(const RowBytes& rows,
                                                          std::int64_t block,
                                                          Tile& tile) {
  Bytes16 columns[16];
  load_columns(rows, block * kGroup / 2, columns);
  for (int j = 0; j < 16; ++j) {
    decode_column<1, 1, 3>(columns[j], 0, tile.values[2 * j]);
    decode_column<1, 1, 3>(columns[j], 4, tile.values[2 * j + 1]);
  }
}

// acc [n][16] += (sum over the block of 32) * s_x * s_w: the block's sum is rounded to fp32, then
// scaled, then added. In fp32, two vectors of weight rows times four chains of columns fill half
// the registers of an AVX2 core.
template <class Acc>
[[gnu::always_inline]] inline void accumulate_tile(const Tile& tile,
                                                   const QuantFloats& x,
                                                   std::int64_t block,
                                                   std::int64_t n,
                                                   float (*acc)[kTileRows]) {
  constexpr int kVectors = kTileRows / Acc::kWidth;
  constexpr int kChains = 4;
  const float* row = x.values + block * kGroup;
  for (std::int64_t i = 0; i < n; ++i, row += x.k) {
    typename Acc::Vector chain[kVectors][kChains] = {};
#pragma GCC unroll 2
    for (int j = 0; j < kGroup; j += kChains) {
      for (int c = 0; c < kChains; ++c) {
        for (int v = 0; v < kVectors; ++v) {
          typename Acc::Vector w;
          load(&tile.values[j + c][v * Acc::kWidth], w);
          chain[v][c] += static_cast<typename Acc::Scalar>(row[j + c]) * w;
        }
      }
    }
    float partial[kTileRows];
    for (int v = 0; v < kVectors; ++v) {
      const typename Acc::Vector total = (chain[v][0] + chain[v][1]) + (chain[v][2] + chain[v][3]);
      store(total, partial + v * Acc::kWidth);
    }
    const float row_scale = x.scales[i * (x.k / kGroup) + block];
    for (int r = 0; r < kTileRows; ++r) {
      acc[i][r] += partial[r] * row_scale * tile.scales[r];
    }
  }
}

[[gnu::target_clones("avx2", "default")]] void accumulate_single(const Tile& tile,
                                                                 const QuantFloats& x,
                                                                 std::int64_t block,
                                                                 std::int64_t n,
                                                                 float (*acc)[kTileRows]) {
  accumulate_tile<Single>(tile, x, block, n, acc);
}

[[gnu::target_clones("avx2", "default")]] void accumulate_double(const Tile& tile,
                                                                 const QuantFloats& x,
                                                                 std::int64_t block,
                                                                 std::int64_t n,
                                                                 float (*acc)[kTileRows]) {
  accumulate_tile<Double>(tile, x, block, n, acc);
}

// The tile of weight rows first .. first + 15.
class TileReader {
 public:
  TileReader(const Weight& w, std::int64_t first) : w_(w) {
    const std::int64_t row_bytes = w.format == WeightFormat::kFp8 ? w.cols : w.cols / 2;
    for (int r = 0; r < kTileRows; ++r) {
      const std::int64_t row = std::min(first + r, w.rows - 1);
      rows_[r] = reinterpret_cast<const std::uint8_t*>(w.values) + row * row_bytes;
      scales_[r] =
          w.scales + (w.format == WeightFormat::kFp8 ? row / kGroup : row) * (w.cols / kGroup);
    }
  }

  void read(std::int64_t block, Tile& tile) const {
    (w_.format == WeightFormat::kFp8 ? decode_fp8 : decode_fp4)(rows_, block, tile);
    for (int r = 0; r < kTileRows; ++r) {
      tile.scales[r] = ue8m0(scales_[r][block]);
    }
  }

 private:
  const Weight& w_;
  RowBytes rows_;
  RowBytes scales_;
};

// y of 16 weight rows for the rows of one strip.
void multiply_tile(const Weight& w,
                   std::int64_t first,
                   const QuantFloats& x,
                   std::int64_t n,
                   SumPrecision precision,
                   Bf16* y) {
  const TileReader reader(w, first);
  const auto accumulate =
      precision == SumPrecision::kSingle ? accumulate_single : accumulate_double;
  alignas(32) float acc[kStripRows][kTileRows] = {};
  Tile tile;
  for (std::int64_t block = 0; block < w.cols / kGroup; ++block) {
    reader.read(block, tile);
    accumulate(tile, x, block, n, acc);
  }
  const std::int64_t rows = std::min<std::int64_t>(kTileRows, w.rows - first);
  for (std::int64_t i = 0; i < n; ++i) {
    narrow(acc[i], rows, y + i * w.rows + first);
  }
}

QuantFloats to_floats(QuantRows x, std::int64_t n, std::int64_t k, std::vector<float>& buffer) {
  float* values = reserve(buffer, n * k + n * k / kGroup);
  float* scales = values + n * k;
  for (std::int64_t i = 0; i < n * k; ++i) {
    values[i] = kE4m3[x.codes[i]];
  }
  for (std::int64_t i = 0; i < n * k / kGroup; ++i) {
    scales[i] = ue8m0(x.scales[i]);
  }
  return {values, scales, k};
}

std::int64_t value_bytes(WeightFormat format) {
  return format == WeightFormat::kF32 ? 4 : format == WeightFormat::kBf16 ? 2 : 1;
}

// Row `row` as floats. Copied even if it is fp32: a tensor of a mapped file may start at any byte.
const float* weight_row(const Weight& w, std::int64_t row, std::vector<float>& buffer) {
  const std::byte* values = w.values + row * w.cols * value_bytes(w.format);
  float* floats = reserve(buffer, w.cols);
  if (w.format == WeightFormat::kF32) {
    std::memcpy(floats, values, static_cast<std::size_t>(w.cols) * sizeof(float));
  } else if (w.format == WeightFormat::kBf16) {
    widen(reinterpret_cast<const Bf16*>(values), w.cols, floats);
  } else {
    const std::uint8_t* scales = w.scales + row / kGroup * (w.cols / kGroup);
    decode_fp8_row(reinterpret_cast<const std::uint8_t*>(values), scales, w.cols, floats);
  }
  return floats;
}

// put(i, row, value) for every row i of x [n][cols] and the weight rows [begin, end).
template <class Put>
void multiply_rows(const Weight& w,
                   std::int64_t begin,
                   std::int64_t end,
                   const float* x,
                   std::int64_t n,
                   SumPrecision precision,
                   const Put& put) {
  thread_local std::vector<float> buffer;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* weights = weight_row(w, row, buffer);
    for (std::int64_t i = 0; i < n; ++i) {
      put(i, row, dot(precision, x + i * w.cols, weights, w.cols));
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

void CpuOps::linear_quantized(const Weight& w, QuantRows x, std::int64_t n, Bf16* y) const {
  CHECK(w.is_quantized() && w.cols % kGroup == 0);
  thread_local std::vector<float> buffer;
  const QuantFloats floats = to_floats(x, n, w.cols, buffer);
  const std::int64_t tiles = (w.rows + kTileRows - 1) / kTileRows;
  split(tiles, kTileRows * w.cols * (n + 8) / 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      for (std::int64_t i = 0; i < n; i += kStripRows) {
        const QuantFloats strip{
            floats.values + i * w.cols, floats.scales + i * (w.cols / kGroup), w.cols};
        multiply_tile(
            w, tile * kTileRows, strip, std::min(kStripRows, n - i), precision_, y + i * w.rows);
      }
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
  thread_local std::vector<float> buffer;
  float* floats = reserve(buffer, n * w.cols);
  for (std::int64_t i = 0; i < n; ++i) {
    widen(x + i * x_stride, w.cols, floats + i * w.cols);
  }
  split(w.rows, w.cols * (n + 1), [&](std::int64_t begin, std::int64_t end) {
    multiply_rows(
        w, begin, end, floats, n, precision_, [&](std::int64_t i, std::int64_t row, float value) {
          y[i * y_stride + row] = to_bf16(value);
        });
  });
}

void CpuOps::linear_f32(const Weight& w, const Bf16* x, std::int64_t n, float* y) const {
  CHECK(!w.is_quantized());
  thread_local std::vector<float> buffer;
  float* floats = reserve(buffer, n * w.cols);
  widen(x, n * w.cols, floats);
  split(w.rows, w.cols * (n + 1), [&](std::int64_t begin, std::int64_t end) {
    multiply_rows(
        w, begin, end, floats, n, precision_, [&](std::int64_t i, std::int64_t row, float value) {
          y[i * w.rows + row] = value;
        });
  });
}

}  // namespace shoal::kernels::cpu
