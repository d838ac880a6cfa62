// Grouping by expert is an ordering of independent rows: it changes no bit of any of them.
#include "kernels/model/experts.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

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

namespace {

// All pairs of one expert.
void run_group(const Ops& ops, const ModelConfig& config, std::span<const ExpertPair> pairs) {
  thread_local Workspace space;
  space.reset();
  const std::int64_t dim = config.dim;
  const std::int64_t groups = dim / kGroup;
  const auto n = static_cast<std::int64_t>(pairs.size());
  const QuantRows x{space.take<std::uint8_t>(n * dim), space.take<std::uint8_t>(n * groups)};
  auto* weights = space.take<float>(n);
  auto* out = space.take<Bf16>(n * dim);
  for (std::int64_t i = 0; i < n; ++i) {
    const ExpertPair& pair = pairs[static_cast<std::size_t>(i)];
    std::copy_n(pair.codes, dim, x.codes + i * dim);
    std::copy_n(pair.scales, groups, x.scales + i * groups);
    weights[i] = pair.weight;
  }
  run_expert(ops, *pairs.front().expert, x, weights, config.swiglu_limit, n, space, out);
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(out + i * dim, dim, pairs[static_cast<std::size_t>(i)].out);
  }
}

}  // namespace

void run_pairs(const Ops& ops, const ModelConfig& config, std::vector<ExpertPair> pairs) {
  std::ranges::stable_sort(pairs, std::less<>(), &ExpertPair::expert);
  for (auto begin = pairs.begin(); begin != pairs.end();) {
    const auto end = std::find_if(
        begin, pairs.end(), [&](const ExpertPair& p) { return p.expert != begin->expert; });
    run_group(ops, config, {begin, end});
    begin = end;
  }
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
  std::vector<ExpertPair> pairs(static_cast<std::size_t>(exchange.rows * exchange.top_k));
  for (std::int64_t i = 0; i < exchange.rows * exchange.top_k; ++i) {
    const std::int64_t row = i / exchange.top_k;
    pairs[static_cast<std::size_t>(i)] = {
        .expert = &block.experts[static_cast<std::size_t>(exchange.experts[i])],
        .codes = exchange.x.codes + row * exchange.dim,
        .scales = exchange.x.scales + row * (exchange.dim / kGroup),
        .weight = exchange.weights[i],
        .out = exchange.outputs + i * exchange.dim};
  }
  run_pairs(ops_, config, std::move(pairs));
}

}  // namespace shoal::kernels
