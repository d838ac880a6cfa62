// Mixture of experts around the expert's linears: gate, routing, activation, weighted sum (model
// spec 3.9).
#include <algorithm>
#include <array>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/scalar_math.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

namespace {

constexpr int kMaxTopK = 64;

// The k best of score + bias, best first; an equal later one does not pass an earlier one.
void pick_experts(
    const float* scores, const float* bias, std::int64_t count, int k, std::int32_t* experts) {
  std::array<float, kMaxTopK> best;
  int found = 0;
  for (std::int64_t e = 0; e < count; ++e) {
    const float biased = scores[e] + bias[e];
    if (found == k && !(biased > best[static_cast<std::size_t>(k - 1)])) {
      continue;
    }
    found = std::min(found + 1, k);
    int slot = found - 1;
    for (; slot > 0 && biased > best[static_cast<std::size_t>(slot - 1)]; --slot) {
      best[static_cast<std::size_t>(slot)] = best[static_cast<std::size_t>(slot - 1)];
      experts[slot] = experts[slot - 1];
    }
    best[static_cast<std::size_t>(slot)] = biased;
    experts[slot] = static_cast<std::int32_t>(e);
  }
}

// Unbiased scores of the chosen, normalised. The floor of 1e-20 is the model's own, not a norm's
// eps.
void weigh_experts(const float* scores,
                   const std::int32_t* experts,
                   const RouteParams& params,
                   float* weights) {
  float total = 0;
  for (int i = 0; i < params.top_k; ++i) {
    weights[i] = scores[experts[i]];
    total += weights[i];
  }
  for (int i = 0; i < params.top_k; ++i) {
    weights[i] = (params.top_k > 1 ? weights[i] / (total + 1e-20F) : weights[i]) * params.scale;
  }
}

// t = bf16(weight * (silu(min(g, limit)) * clamp(u, +-limit))).
[[gnu::target_clones("avx2", "default")]] void activate(
    const Bf16* g, const Bf16* u, float weight, float limit, std::int64_t n, Bf16* t) {
  for (std::int64_t j = 0; j < n; ++j) {
    const float gate = std::min(to_float(g[j]), limit);
    const float up = std::min(std::max(to_float(u[j]), -limit), limit);
    t[j] = to_bf16(weight * (gate * sigmoid(gate) * up));
  }
}

}  // namespace

void CpuOps::gate_scores(const Weight& gate, const Bf16* x, std::int64_t n, float* scores) const {
  linear_f32(gate, x, n, scores);
  for (std::int64_t i = 0; i < n * gate.rows; ++i) {
    scores[i] = sqrt_softplus(scores[i]);
  }
}

void CpuOps::route(const float* scores,
                   const float* const* bias,
                   const RouteParams& params,
                   std::int64_t n,
                   std::int32_t* experts,
                   float* weights) const {
  CHECK(params.top_k >= 1 && params.top_k <= kMaxTopK && params.top_k <= params.experts);
  for (std::int64_t i = 0; i < n; ++i) {
    const float* row = scores + i * params.experts;
    std::int32_t* chosen = experts + i * params.top_k;
    pick_experts(row, bias[i], params.experts, params.top_k, chosen);
    weigh_experts(row, chosen, params, weights + i * params.top_k);
  }
}

void CpuOps::swiglu(const Bf16* g,
                    const Bf16* u,
                    const float* weights,
                    float limit,
                    std::int64_t n,
                    std::int64_t inter,
                    Bf16* t) const {
  split(n, 16 * inter, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // Without a weight, times 1 changes no bit.
      const float weight = weights == nullptr ? 1.0F : weights[i];
      activate(g + i * inter, u + i * inter, weight, limit, inter, t + i * inter);
    }
  });
}

void CpuOps::combine(const Bf16* outputs,
                     const std::int32_t* experts,
                     const Bf16* shared,
                     std::int64_t n,
                     int k,
                     std::int64_t d,
                     Bf16* y) const {
  CHECK(k <= kMaxTopK);
  split(n, (k + 1) * d, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* total = reserve(buffer, d);
    std::array<int, kMaxTopK> order;
    for (std::int64_t i = begin; i < end; ++i) {
      for (int slot = 0; slot < k; ++slot) {
        order[static_cast<std::size_t>(slot)] = slot;
      }
      std::sort(order.begin(), order.begin() + k, [&](int a, int b) {
        return experts[i * k + a] < experts[i * k + b];
      });
      std::fill_n(total, d, 0.0F);
      const auto add = [&](const Bf16* row) {
        for (std::int64_t j = 0; j < d; ++j) {
          total[j] += to_float(row[j]);
        }
      };
      for (int slot = 0; slot < k; ++slot) {
        add(outputs + (i * k + order[static_cast<std::size_t>(slot)]) * d);
      }
      add(shared + i * d);
      narrow(total, d, y + i * d);
    }
  });
}

}  // namespace shoal::kernels::cpu
