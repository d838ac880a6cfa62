// Every sum the model calls fp32, in one fixed order per length: the same bits for any batch,
// thread count and instruction set.
//
// kSingle sums in fp32 (the product). kDouble sums in double and rounds once, where the golden data
// does (the test mode).
#pragma once

#include <cstdint>

#include "kernels/sum_precision.h"

namespace shoal::kernels {

namespace cpu {

float dot(SumPrecision precision, const float* a, const float* b, std::int64_t n);
// sum of a[i] * b[i] * c[i].
float dot(SumPrecision precision, const float* a, const float* b, const float* c, std::int64_t n);
float sum(SumPrecision precision, const float* a, std::int64_t n);
// mean(a^2), then 1/sqrt(mean + eps).
float inverse_rms(SumPrecision precision, const float* a, std::int64_t n, float eps);
// y[d] = sum over i < count, ascending, of weights[i * weight_stride] * rows[i][d].
void weighted_sum(SumPrecision precision,
                  const float* weights,
                  std::int64_t weight_stride,
                  const float* rows,
                  std::int64_t count,
                  std::int64_t d,
                  float* y);

}  // namespace cpu
}  // namespace shoal::kernels
