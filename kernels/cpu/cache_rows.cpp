// Rotation, and rows as the caches store them: window (q8), main KV (q4kv), index keys (q4); model
// spec 3.5 to 3.8.
#include <array>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/scalar_math.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

namespace {

constexpr std::size_t kMaxPairs = 128;

struct Rotation {
  std::array<float, kMaxPairs> cos;
  std::array<float, kMaxPairs> sin;
};

void make_rotation(std::int64_t position,
                   std::span<const float> freqs,
                   bool inverse,
                   Rotation& out) {
  const auto p = static_cast<float>(position);
  for (std::size_t i = 0; i < freqs.size(); ++i) {
    const float angle = p * freqs[i];
    const portable::SinCos turn = portable::sin_cos(static_cast<double>(angle));
    out.cos[i] = static_cast<float>(turn.cos);
    out.sin[i] = static_cast<float>(inverse ? -turn.sin : turn.sin);
  }
}

// Adjacent pairs.
void rotate(Bf16* x, std::size_t pairs, const Rotation& turn) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const float a = to_float(x[2 * i]);
    const float b = to_float(x[2 * i + 1]);
    x[2 * i] = to_bf16(a * turn.cos[i] - b * turn.sin[i]);
    x[2 * i + 1] = to_bf16(a * turn.sin[i] + b * turn.cos[i]);
  }
}

// One row of E2M1 codes, packed, then its scales.
template <int kSize, std::uint8_t (*kQuantize)(const float*, std::uint8_t*)>
void pack_fp4_row(const Bf16* x, std::int64_t d, std::byte* out) {
  std::byte* scales = out + d / 2;
  for (std::int64_t g = 0; g < d / kSize; ++g) {
    float values[kSize];
    std::uint8_t codes[kSize];
    widen(x + g * kSize, kSize, values);
    scales[g] = static_cast<std::byte>(kQuantize(values, codes));
    for (int i = 0; i < kSize / 2; ++i) {
      out[g * kSize / 2 + i] = static_cast<std::byte>(codes[2 * i] | (codes[2 * i + 1] << 4));
    }
  }
}

}  // namespace

void CpuOps::rope(Bf16* x,
                  const std::int64_t* positions,
                  std::span<const float> freqs,
                  std::int64_t n,
                  std::int64_t heads,
                  std::int64_t d,
                  bool inverse) const {
  const auto rotated = static_cast<std::int64_t>(2 * freqs.size());
  CHECK(freqs.size() <= kMaxPairs && rotated <= d);
  split(n, (heads + 8) * rotated * 2, [&](std::int64_t begin, std::int64_t end) {
    Rotation turn;
    for (std::int64_t i = begin; i < end; ++i) {
      make_rotation(positions[i], freqs, inverse, turn);
      for (std::int64_t h = 0; h < heads; ++h) {
        rotate(x + (i * heads + h + 1) * d - rotated, freqs.size(), turn);
      }
    }
  });
}

void CpuOps::pack_window(const Bf16* x,
                         std::int64_t n,
                         std::int64_t d,
                         std::byte* const* out) const {
  CHECK(d % kGroup == 0);
  split(n, 4 * d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      auto* codes = reinterpret_cast<std::uint8_t*>(out[i]);
      for (std::int64_t g = 0; g < d / kGroup; ++g) {
        float values[kGroup];
        widen(x + i * d + g * kGroup, kGroup, values);
        codes[d + g] = quantize_group_q8(values, codes + g * kGroup);
      }
    }
  });
}

void CpuOps::pack_main(const Bf16* x, std::int64_t n, std::int64_t d, std::byte* const* out) const {
  CHECK(d % kMainGroup == 0);
  split(n, 4 * d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      pack_fp4_row<kMainGroup, quantize_group_q4kv>(x + i * d, d, out[i]);
    }
  });
}

void CpuOps::pack_index(const Bf16* x,
                        std::int64_t n,
                        std::int64_t d,
                        std::byte* const* out) const {
  CHECK(d % kGroup == 0);
  split(n, 4 * d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      pack_fp4_row<kGroup, quantize_group_q4>(x + i * d, d, out[i]);
    }
  });
}

void CpuOps::qdq_index(Bf16* x, std::int64_t n, std::int64_t d) const {
  CHECK(d % kGroup == 0);
  split(n * d / kGroup, 4 * kGroup, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      std::byte row[kGroup / 2 + 1];
      float values[kGroup];
      pack_fp4_row<kGroup, quantize_group_q4>(x + g * kGroup, kGroup, row);
      decode_index_row(row, kGroup, values);
      narrow(values, kGroup, x + g * kGroup);
    }
  });
}

void CpuOps::pool_pairs(
    const float* kv, const float* score, std::int64_t m, std::int64_t d, Bf16* y) const {
  split(m, 32 * d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * d; i < end * d; ++i) {
      const std::int64_t first = i / d * 2 * d + i % d;
      const std::int64_t second = first + d;
      const float largest = std::max(score[first], score[second]);
      const float e0 = exp_float(score[first] - largest);
      const float e1 = exp_float(score[second] - largest);
      const float total = e0 + e1;
      y[i] = to_bf16(kv[first] * (e0 / total) + kv[second] * (e1 / total));
    }
  });
}

}  // namespace shoal::kernels::cpu
