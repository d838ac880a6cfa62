// The residual stream: RMSNorm and the hyper-connections that mix its copies (model spec 3.2, 3.4).
#include <algorithm>
#include <bit>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/scalar_math.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

namespace {

constexpr std::int64_t kMaxCopies = 8;

// One row of projections m [(2+C)C] -> pre [C], post [C].
void split_gates(
    const float* m, const HcWeights& w, const HcShape& shape, float* pre, float* post) {
  const std::int64_t copies = shape.copies;
  for (std::int64_t c = 0; c < copies; ++c) {
    pre[c] = sigmoid(m[c] * w.scale[0] + w.base[c]) + shape.hc_eps;
    post[c] = 2.0F * sigmoid(m[copies + c] * w.scale[1] + w.base[copies + c]);
  }
}

// Divides each of `count` lines of `length` numbers by (its sum + eps).
void normalize(float* x,
               std::int64_t count,
               std::int64_t line,
               std::int64_t length,
               std::int64_t step,
               float eps) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* first = x + i * line;
    float total = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      total += first[j * step];
    }
    for (std::int64_t j = 0; j < length; ++j) {
      first[j * step] /= total + eps;
    }
  }
}

// Sinkhorn: the first row step is a softmax, then columns, then rows and columns in turn.
void split_comb(const float* m, const HcWeights& w, const HcShape& shape, float* comb) {
  const std::int64_t copies = shape.copies;
  const float* base = w.base + 2 * copies;
  for (std::int64_t j = 0; j < copies; ++j) {
    float* row = comb + j * copies;
    for (std::int64_t k = 0; k < copies; ++k) {
      row[k] = m[2 * copies + j * copies + k] * w.scale[2] + base[j * copies + k];
    }
    const float largest = *std::max_element(row, row + copies);
    for (std::int64_t k = 0; k < copies; ++k) {
      row[k] = exp_float(row[k] - largest);
    }
  }
  normalize(comb, copies, copies, copies, 1, 0.0F);
  for (std::int64_t i = 0; i < copies * copies; ++i) {
    comb[i] += shape.hc_eps;
  }
  normalize(comb, copies, 1, copies, copies, shape.hc_eps);
  for (int i = 1; i < shape.sinkhorn_iters; ++i) {
    normalize(comb, copies, copies, copies, 1, shape.hc_eps);
    normalize(comb, copies, 1, copies, copies, shape.hc_eps);
  }
}

void split_row(
    const float* m, const HcWeights& w, const HcShape& shape, std::int64_t i, HcMix out) {
  const std::int64_t copies = shape.copies;
  split_gates(m, w, shape, out.pre + i * copies, out.post + i * copies);
  split_comb(m, w, shape, out.comb + i * copies * copies);
}

}  // namespace

void CpuOps::rms_norm(
    const Bf16* x, const float* w, std::int64_t n, std::int64_t d, float eps, Bf16* y) const {
  split(n, 4 * d, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* row = reserve(buffer, d);
    for (std::int64_t i = begin; i < end; ++i) {
      widen(x + i * d, d, row);
      const float scale = inverse_rms(precision_, row, d, eps);
      for (std::int64_t j = 0; j < d; ++j) {
        row[j] = w[j] * (row[j] * scale);
      }
      narrow(row, d, y + i * d);
    }
  });
}

void CpuOps::hc_mixes(
    const Bf16* h, const HcWeights& w, const HcShape& shape, std::int64_t n, HcMix out) const {
  CHECK(shape.copies <= kMaxCopies);
  const std::int64_t width = shape.copies * shape.dim;
  const std::int64_t projections = (2 + shape.copies) * shape.copies;
  split(n, (projections + 2) * width, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* row = reserve(buffer, width);
    float m[(2 + kMaxCopies) * kMaxCopies];
    for (std::int64_t i = begin; i < end; ++i) {
      widen(h + i * width, width, row);
      const float scale = inverse_rms(precision_, row, width, shape.norm_eps);
      for (std::int64_t p = 0; p < projections; ++p) {
        m[p] = dot(precision_, row, w.fn + p * width, width) * scale;
      }
      split_row(m, w, shape, i, out);
    }
  });
}

void CpuOps::hc_split(
    const float* m, const HcWeights& w, const HcShape& shape, std::int64_t n, HcMix out) const {
  const std::int64_t projections = (2 + shape.copies) * shape.copies;
  for (std::int64_t i = 0; i < n; ++i) {
    split_row(m + i * projections, w, shape, i, out);
  }
}

void CpuOps::hc_collapse(
    const Bf16* h, const float* mix, const HcShape& shape, std::int64_t n, Bf16* y) const {
  const std::int64_t copies = shape.copies;
  const std::int64_t d = shape.dim;
  split(n, 2 * copies * d, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* rows = reserve(buffer, (copies + 1) * d);
    float* total = rows + copies * d;
    for (std::int64_t i = begin; i < end; ++i) {
      widen(h + i * copies * d, copies * d, rows);
      weighted_sum(precision_, mix + i * copies, 1, rows, copies, d, total);
      narrow(total, d, y + i * d);
    }
  });
}

void CpuOps::hc_expand(const Bf16* y,
                       const Bf16* h,
                       const float* post,
                       const float* comb,
                       const HcShape& shape,
                       std::int64_t n,
                       Bf16* out) const {
  const std::int64_t copies = shape.copies;
  const std::int64_t d = shape.dim;
  split(n, (copies + 2) * copies * d, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* rows = reserve(buffer, (copies + 2) * d);
    float* update = rows + copies * d;
    float* mixed = update + d;
    for (std::int64_t i = begin; i < end; ++i) {
      widen(h + i * copies * d, copies * d, rows);
      widen(y + i * d, d, update);
      for (std::int64_t k = 0; k < copies; ++k) {
        weighted_sum(precision_, comb + i * copies * copies + k, copies, rows, copies, d, mixed);
        const float weight = post[i * copies + k];
        for (std::int64_t j = 0; j < d; ++j) {
          mixed[j] = weight * update[j] + mixed[j];
        }
        narrow(mixed, d, out + (i * copies + k) * d);
      }
    }
  });
}

void CpuOps::hc_mean(const Bf16* h, const HcShape& shape, std::int64_t n, Bf16* y) const {
  CHECK(
      std::has_single_bit(static_cast<std::uint64_t>(shape.copies)));  // so that the share is exact
  thread_local std::vector<float> buffer;
  float* mix = reserve(buffer, n * shape.copies);
  std::fill_n(mix, n * shape.copies, 1.0F / static_cast<float>(shape.copies));
  hc_collapse(h, mix, shape, n, y);
}

}  // namespace shoal::kernels::cpu
