// Grouping by expert is an ordering of independent rows: it changes no bit of any of them.
#include "kernels/expert_engine.h"

#include <algorithm>
#include <vector>

#include "kernels/formats.h"

namespace shoal::kernels {

void run_expert(const Ops& ops,
                const ExpertWeights& expert,
                QuantRows x,
                const float* weights,
                float limit,
                std::int64_t n,
                Workspace& space,
                Bf16* out) {
  const std::int64_t inter = expert.w1.rows;
  auto* gate = space.take<Bf16>(n * inter);
  auto* up = space.take<Bf16>(n * inter);
  ops.linear_quantized(expert.w1, x, n, gate);
  ops.linear_quantized(expert.w3, x, n, up);
  ops.swiglu(gate, up, weights, limit, n, inter, gate);
  const QuantRows activated{space.take<std::uint8_t>(n * inter),
                            space.take<std::uint8_t>(n * inter / kGroup)};
  ops.quantize(gate, n, inter, activated);
  ops.linear_quantized(expert.w2, activated, n, out);
}

bool LocalExperts::start(Exchange& exchange) {
  run(exchange);
  return true;
}

void LocalExperts::run(Exchange& exchange) const {
  const ModelConfig& config = model_.config;
  const BlockWeights& block =
      exchange.layer < config.layers
          ? model_.weights.blocks[static_cast<std::size_t>(exchange.layer)]
          : model_.weights.stages[static_cast<std::size_t>(exchange.layer - config.layers)];
  // Slots (row * top_k + choice) sorted by expert; equal experts keep row order.
  const std::int64_t slots = exchange.rows * exchange.top_k;
  std::vector<std::int64_t> order(static_cast<std::size_t>(slots));
  for (std::int64_t i = 0; i < slots; ++i) {
    order[static_cast<std::size_t>(i)] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return exchange.experts[a] < exchange.experts[b];
  });

  thread_local Workspace space;
  const std::int64_t groups = exchange.dim / kGroup;
  for (std::int64_t begin = 0; begin < slots;) {
    const std::int32_t expert = exchange.experts[order[static_cast<std::size_t>(begin)]];
    std::int64_t end = begin;
    while (end < slots && exchange.experts[order[static_cast<std::size_t>(end)]] == expert) {
      ++end;
    }
    space.reset();
    const std::int64_t n = end - begin;
    const QuantRows x{space.take<std::uint8_t>(n * exchange.dim),
                      space.take<std::uint8_t>(n * groups)};
    auto* weights = space.take<float>(n);
    auto* out = space.take<Bf16>(n * exchange.dim);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t slot = order[static_cast<std::size_t>(begin + i)];
      const std::int64_t row = slot / exchange.top_k;
      std::copy_n(exchange.x.codes + row * exchange.dim, exchange.dim, x.codes + i * exchange.dim);
      std::copy_n(exchange.x.scales + row * groups, groups, x.scales + i * groups);
      weights[i] = exchange.weights[slot];
    }
    run_expert(ops_,
               block.experts[static_cast<std::size_t>(expert)],
               x,
               weights,
               config.swiglu_limit,
               n,
               space,
               out);
    for (std::int64_t i = 0; i < n; ++i) {
      std::copy_n(out + i * exchange.dim,
                  exchange.dim,
                  exchange.outputs + order[static_cast<std::size_t>(begin + i)] * exchange.dim);
    }
    begin = end;
  }
}

}  // namespace shoal::kernels
