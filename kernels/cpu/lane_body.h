// The loops over blocks and columns, written once over the lanes of an instruction set (`Isa`),
// which is a type of the including file's own: no instantiation is shared between files that are
// compiled for different machines.
#pragma once

#include <cstdint>

#include "kernels/cpu/lane_kernels.h"

namespace shoal::kernels::cpu {

inline constexpr std::int64_t kLaneBlock = 32;
inline constexpr std::int64_t kPanelColumns = 512;  // 8 KiB

// The formats of a tile: how many bytes a block of a row has, and its values. Those with scales
// leave them, and a factor, to the caller.
struct Fp8Codes {
  static constexpr std::int64_t kBytes = 32;
  static constexpr bool kHasScales = true;
  static constexpr bool kIsExact = true;  // products are

  template <class Isa>
  static constexpr float kFactor = Isa::kFp8Factor;

  template <class Isa>
  [[gnu::always_inline]] static inline void decode(const std::uint8_t* codes,
                                                   typename Isa::Lanes& first,
                                                   typename Isa::Lanes& second) {
    Isa::decode_fp8(codes, first);
    Isa::decode_fp8(codes + kLaneCount, second);
  }
};

struct Fp4Codes {
  static constexpr std::int64_t kBytes = 16;
  static constexpr bool kHasScales = true;
  static constexpr bool kIsExact = true;

  template <class Isa>
  static constexpr float kFactor = Isa::kFp4Factor;

  template <class Isa>
  [[gnu::always_inline]] static inline void decode(const std::uint8_t* codes,
                                                   typename Isa::Lanes& even,
                                                   typename Isa::Lanes& odd) {
    Isa::decode_fp4(codes, even, odd);
  }
};

struct Bf16Codes {
  static constexpr std::int64_t kBytes = 64;
  static constexpr bool kHasScales = false;
  static constexpr bool kIsExact = true;

  template <class Isa>
  [[gnu::always_inline]] static inline void decode(const std::uint8_t* codes,
                                                   typename Isa::Lanes& first,
                                                   typename Isa::Lanes& second) {
    Isa::decode_bf16(codes, first);
    Isa::decode_bf16(codes + kBytes / 2, second);
  }
};

template <bool kExactProducts>
struct FloatCodes {
  static constexpr std::int64_t kBytes = 128;
  static constexpr bool kHasScales = false;
  static constexpr bool kIsExact = kExactProducts;

  template <class Isa>
  [[gnu::always_inline]] static inline void decode(const std::uint8_t* codes,
                                                   typename Isa::Lanes& first,
                                                   typename Isa::Lanes& second) {
    Isa::load_bytes(codes, first);
    Isa::load_bytes(codes + kBytes / 2, second);
  }
};

// sum += a * b, where it must be with the product rounded before.
template <class Isa, class Codes>
[[gnu::always_inline]] inline void add_product(const typename Isa::Lanes& a,
                                               const typename Isa::Lanes& b,
                                               typename Isa::Lanes& sum) {
  if constexpr (Codes::kIsExact) {
    Isa::add_exact(a, b, sum);
  } else {
    Isa::add_rounded(a, b, sum);
  }
}

// 2^(byte - 127) times a power of two that decoding left out.
[[gnu::always_inline]] inline float block_scale(std::uint8_t byte, float factor) {
  const std::uint32_t bits = byte == 0 ? 0x00400000u : static_cast<std::uint32_t>(byte) << 23;
  float scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return (byte == 255 ? __builtin_nanf("") : scale) * factor;
}

// The weights of one block of a row.
template <class Isa, class Codes>
[[gnu::always_inline]] inline void decode_block(const WeightTile& tile,
                                                int row,
                                                std::int64_t block,
                                                typename Isa::Lanes& first,
                                                typename Isa::Lanes& second) {
  Codes::template decode<Isa>(tile.codes[row] + block * Codes::kBytes, first, second);
  if constexpr (Codes::kHasScales) {
    const float scale = block_scale(tile.scales[row][block], Codes::template kFactor<Isa>);
    Isa::multiply(first, scale);
    Isa::multiply(second, scale);
  }
}

// A few rows of x, each weight decoded as it is met.
template <class Isa, class Codes, int kRows>
[[gnu::always_inline]] inline void multiply_codes(const WeightTile& tile,
                                                  const float* x,
                                                  std::int64_t k,
                                                  float* sums) {
  typename Isa::Lanes acc[kTileRows][kRows] = {};
  for (std::int64_t block = 0; block < k / kLaneBlock; ++block) {
    typename Isa::Lanes first_x[kRows];
    typename Isa::Lanes second_x[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      Isa::load(x + i * k + block * kLaneBlock, first_x[i]);
      Isa::load(x + i * k + block * kLaneBlock + kLaneCount, second_x[i]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      typename Isa::Lanes first;
      typename Isa::Lanes second;
      decode_block<Isa, Codes>(tile, r, block, first, second);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        add_product<Isa, Codes>(first, first_x[i], acc[r][i]);
        add_product<Isa, Codes>(second, second_x[i], acc[r][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      sums[i * kTileRows + r] = Isa::total(acc[r][i]);
    }
  }
}

// panel [rows of the tile][columns] of the weights from column `begin` on.
template <class Isa, class Codes>
[[gnu::always_inline]] inline void decode_panel(const WeightTile& tile,
                                                std::int64_t begin,
                                                std::int64_t columns,
                                                float* panel) {
  for (int r = 0; r < kTileRows; ++r) {
    for (std::int64_t j = 0; j < columns; j += kLaneBlock) {
      typename Isa::Lanes first;
      typename Isa::Lanes second;
      decode_block<Isa, Codes>(tile, r, (begin + j) / kLaneBlock, first, second);
      Isa::store(first, panel + r * kPanelColumns + j);
      Isa::store(second, panel + r * kPanelColumns + j + kLaneCount);
    }
  }
}

// Adds the panel's columns of kRows rows of x, or begins with them, `stride` apart, to running
// [kRows][tile's rows][lanes].
template <class Isa, class Codes, int kRows>
[[gnu::always_inline]] inline void add_panel(const float* panel,
                                             std::int64_t columns,
                                             const float* x,
                                             std::int64_t stride,
                                             bool begins,
                                             float* running) {
  typename Isa::Lanes acc[kRows][kTileRows] = {};
  if (!begins) {
#pragma GCC unroll 16
    for (int a = 0; a < kRows * kTileRows; ++a) {
      Isa::load(running + a * kLaneCount, acc[a / kTileRows][a % kTileRows]);
    }
  }
  for (std::int64_t j = 0; j < columns; j += kLaneCount) {
    typename Isa::Lanes w[kTileRows];
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      Isa::load(panel + r * kPanelColumns + j, w[r]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      typename Isa::Lanes row;
      Isa::load(x + i * stride + j, row);
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
        add_product<Isa, Codes>(w[r], row, acc[i][r]);
      }
    }
  }
#pragma GCC unroll 16
  for (int a = 0; a < kRows * kTileRows; ++a) {
    Isa::store(acc[a / kTileRows][a % kTileRows], running + a * kLaneCount);
  }
}

// Many rows of x: a panel of weights is decoded once, and stays in the nearest cache while all rows
// meet it.
template <class Isa, class Codes>
[[gnu::always_inline]] inline void multiply_panels(const WeightTile& tile,
                                                   const LaneRows& x,
                                                   float* running,
                                                   float* sums) {
  constexpr int kTotals = kTileRows * kLaneCount;  // of a row of x
  alignas(64) float panel[kTileRows * kPanelColumns];
  for (std::int64_t begin = 0; begin < x.k; begin += kPanelColumns) {
    const std::int64_t columns = x.k - begin < kPanelColumns ? x.k - begin : kPanelColumns;
    decode_panel<Isa, Codes>(tile, begin, columns, panel);
    const float* rows = x.values + begin;
    std::int64_t i = 0;
    for (; i + Isa::kStrip <= x.n; i += Isa::kStrip) {
      add_panel<Isa, Codes, Isa::kStrip>(
          panel, columns, rows + i * x.k, x.k, begin == 0, running + i * kTotals);
    }
    for (; i < x.n; ++i) {
      add_panel<Isa, Codes, 1>(
          panel, columns, rows + i * x.k, x.k, begin == 0, running + i * kTotals);
    }
  }
  for (std::int64_t i = 0; i < x.n * kTileRows; ++i) {
    typename Isa::Lanes lanes;
    Isa::load(running + i * kLaneCount, lanes);
    sums[i] = Isa::total(lanes);
  }
}

// As many rows of x at a time as Isa::kMostRows.
template <class Isa, class Codes, int kRows = Isa::kMostRows>
[[gnu::always_inline]] inline void multiply_few(const WeightTile& tile,
                                                const LaneRows& x,
                                                float* sums) {
  std::int64_t i = 0;
  for (; i + kRows <= x.n; i += kRows) {
    multiply_codes<Isa, Codes, kRows>(tile, x.values + i * x.k, x.k, sums + i * kTileRows);
  }
  if constexpr (kRows > 1) {
    multiply_few<Isa, Codes, kRows - 1>(
        tile, {x.values + i * x.k, x.n - i, x.k}, sums + i * kTileRows);
  }
}

template <class Isa, class Codes>
[[gnu::always_inline]] inline void multiply_tile(const WeightTile& tile,
                                                 const LaneRows& x,
                                                 float* running,
                                                 float* sums) {
  if (x.n > Isa::kMostRows) {
    multiply_panels<Isa, Codes>(tile, x, running, sums);
  } else {
    multiply_few<Isa, Codes>(tile, x, sums);
  }
}

// kVectors times 16 columns of some rows of y.
template <class Isa, int kRows, int kVectors>
[[gnu::always_inline]] inline void mix_columns(
    const MixedRows& m, const float* weights, const float* keep, std::int64_t column, float* y) {
  typename Isa::Lanes acc[kRows][kVectors] = {};
  for (std::int64_t t = 0; t < m.count; ++t) {
    typename Isa::Lanes row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Isa::load(m.rows + t * m.d + column + v * kLaneCount, row[v]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      typename Isa::Lanes weight;
      Isa::fill(weights[i * m.stride + t], weight);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        Isa::add_exact(weight, row[v], acc[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* out = y + i * m.d + column + v * kLaneCount;
      typename Isa::Lanes kept;
      Isa::load(out, kept);
      typename Isa::Lanes factor;
      Isa::fill(keep[i], factor);
      Isa::add_rounded(kept, factor, acc[i][v]);
      Isa::store(acc[i][v], out);
    }
  }
}

template <class Isa, int kRows>
[[gnu::always_inline]] inline void mix_rows(const MixedRows& m,
                                            const float* weights,
                                            const float* keep,
                                            float* y) {
  constexpr int kVectors = Isa::kMixVectors;
  std::int64_t column = 0;
  for (; column + kVectors * kLaneCount <= m.d; column += kVectors * kLaneCount) {
    mix_columns<Isa, kRows, kVectors>(m, weights, keep, column, y);
  }
  for (; column < m.d; column += kLaneCount) {
    mix_columns<Isa, kRows, 1>(m, weights, keep, column, y);
  }
}

template <class Isa>
[[gnu::always_inline]] inline void mix_all(
    const MixedRows& m, const float* weights, const float* keep, std::int64_t n, float* y) {
  std::int64_t i = 0;
  for (; i + Isa::kMixRows <= n; i += Isa::kMixRows) {
    mix_rows<Isa, Isa::kMixRows>(m, weights + i * m.stride, keep + i, y + i * m.d);
  }
  for (; i < n; ++i) {
    mix_rows<Isa, 1>(m, weights + i * m.stride, keep + i, y + i * m.d);
  }
}

// The row of kernels of an instruction set. A macro, as each file's functions are compiled for its
// own machine.
#define SHOAL_LANE_KERNELS(Isa)                                                                \
  void fp8(const WeightTile& tile, const LaneRows& x, float* running, float* sums) {           \
    multiply_tile<Isa, Fp8Codes>(tile, x, running, sums);                                      \
  }                                                                                            \
  void fp4(const WeightTile& tile, const LaneRows& x, float* running, float* sums) {           \
    multiply_tile<Isa, Fp4Codes>(tile, x, running, sums);                                      \
  }                                                                                            \
  void bf16(const WeightTile& tile, const LaneRows& x, float* running, float* sums) {          \
    multiply_tile<Isa, Bf16Codes>(tile, x, running, sums);                                     \
  }                                                                                            \
  void f32(const WeightTile& tile, const LaneRows& x, float* running, float* sums) {           \
    multiply_tile<Isa, FloatCodes<false>>(tile, x, running, sums);                             \
  }                                                                                            \
  void exact(const WeightTile& tile, const LaneRows& x, float* running, float* sums) {         \
    multiply_tile<Isa, FloatCodes<true>>(tile, x, running, sums);                              \
  }                                                                                            \
  void mix(                                                                                    \
      const MixedRows& m, const float* weights, const float* keep, std::int64_t n, float* y) { \
    mix_all<Isa>(m, weights, keep, n, y);                                                      \
  }

}  // namespace shoal::kernels::cpu
