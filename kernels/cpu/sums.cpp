// Sums of products: lanes in four independent chains, a fixed tree, then what is left over one by
// one.
#include "kernels/cpu/sums.h"

#include <cmath>

#include "kernels/cpu/vector.h"

namespace shoal::kernels::cpu {

namespace {

constexpr int kChains = 4;
// Elements per round.
template <class Acc>
constexpr std::int64_t kStride = kChains* Acc::kWidth;

// Sum over i of the product of factors[.][i].
template <class Acc, int kFactors>
[[gnu::always_inline]] inline float sum_products(const float* const (&factors)[kFactors],
                                                 std::int64_t n) {
  typename Acc::Vector chain[kChains] = {};
  std::int64_t i = 0;
  for (; i + kStride<Acc> <= n; i += kStride<Acc>) {
    for (int c = 0; c < kChains; ++c) {
      typename Acc::Vector product;
      load(factors[0] + i + c * Acc::kWidth, product);
      for (int f = 1; f < kFactors; ++f) {
        typename Acc::Vector factor;
        load(factors[f] + i + c * Acc::kWidth, factor);
        product *= factor;
      }
      chain[c] += product;
    }
  }
  const typename Acc::Vector lanes = (chain[0] + chain[1]) + (chain[2] + chain[3]);
  typename Acc::Scalar total = add_lanes(lanes);
  for (; i < n; ++i) {
    typename Acc::Scalar product = factors[0][i];
    for (int f = 1; f < kFactors; ++f) {
      product *= factors[f][i];
    }
    total += product;
  }
  return static_cast<float>(total);
}

template <class Acc>
[[gnu::always_inline]] inline void sum_rows(const float* weights,
                                            std::int64_t weight_stride,
                                            const float* rows,
                                            std::int64_t count,
                                            std::int64_t d,
                                            float* y) {
  std::int64_t j = 0;
  for (; j + kStride<Acc> <= d; j += kStride<Acc>) {
    typename Acc::Vector acc[kChains] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const typename Acc::Scalar weight = weights[i * weight_stride];
      for (int c = 0; c < kChains; ++c) {
        typename Acc::Vector value;
        load(rows + i * d + j + c * Acc::kWidth, value);
        acc[c] += weight * value;
      }
    }
    for (int c = 0; c < kChains; ++c) {
      store(acc[c], y + j + c * Acc::kWidth);
    }
  }
  for (; j < d; ++j) {
    typename Acc::Scalar acc = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      acc += static_cast<typename Acc::Scalar>(weights[i * weight_stride]) * rows[i * d + j];
    }
    y[j] = static_cast<float>(acc);
  }
}

[[gnu::target_clones("avx2", "default")]] float sum_single(const float* a, std::int64_t n) {
  return sum_products<Single, 1>({a}, n);
}

[[gnu::target_clones("avx2", "default")]] float sum_double(const float* a, std::int64_t n) {
  return sum_products<Double, 1>({a}, n);
}

[[gnu::target_clones("avx2", "default")]] float dot_single(const float* a,
                                                           const float* b,
                                                           std::int64_t n) {
  return sum_products<Single, 2>({a, b}, n);
}

[[gnu::target_clones("avx2", "default")]] float dot_double(const float* a,
                                                           const float* b,
                                                           std::int64_t n) {
  return sum_products<Double, 2>({a, b}, n);
}

[[gnu::target_clones("avx2", "default")]] float dot_single(const float* a,
                                                           const float* b,
                                                           const float* c,
                                                           std::int64_t n) {
  return sum_products<Single, 3>({a, b, c}, n);
}

[[gnu::target_clones("avx2", "default")]] float dot_double(const float* a,
                                                           const float* b,
                                                           const float* c,
                                                           std::int64_t n) {
  return sum_products<Double, 3>({a, b, c}, n);
}

[[gnu::target_clones("avx2", "default")]] void rows_single(const float* weights,
                                                           std::int64_t weight_stride,
                                                           const float* rows,
                                                           std::int64_t count,
                                                           std::int64_t d,
                                                           float* y) {
  sum_rows<Single>(weights, weight_stride, rows, count, d, y);
}

[[gnu::target_clones("avx2", "default")]] void rows_double(const float* weights,
                                                           std::int64_t weight_stride,
                                                           const float* rows,
                                                           std::int64_t count,
                                                           std::int64_t d,
                                                           float* y) {
  sum_rows<Double>(weights, weight_stride, rows, count, d, y);
}

}  // namespace

float sum(SumPrecision precision, const float* a, std::int64_t n) {
  return precision == SumPrecision::kSingle ? sum_single(a, n) : sum_double(a, n);
}

float dot(SumPrecision precision, const float* a, const float* b, std::int64_t n) {
  return precision == SumPrecision::kSingle ? dot_single(a, b, n) : dot_double(a, b, n);
}

float dot(SumPrecision precision, const float* a, const float* b, const float* c, std::int64_t n) {
  return precision == SumPrecision::kSingle ? dot_single(a, b, c, n) : dot_double(a, b, c, n);
}

float inverse_rms(SumPrecision precision, const float* a, std::int64_t n, float eps) {
  const float mean = dot(precision, a, a, n) / static_cast<float>(n);
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(mean + eps)));
}

void weighted_sum(SumPrecision precision,
                  const float* weights,
                  std::int64_t weight_stride,
                  const float* rows,
                  std::int64_t count,
                  std::int64_t d,
                  float* y) {
  (precision == SumPrecision::kSingle ? rows_single : rows_double)(
      weights, weight_stride, rows, count, d, y);
}

}  // namespace shoal::kernels::cpu
