// The two halves of a layer around the experts (model spec 3.4, 3.9). The pre-mix lags one
// sublayer: attention collapses with the previous layer's, the feed-forward part with the
// attention's.
#include "kernels/model/block_pass.h"

#include <algorithm>
#include <cstring>

#include "kernels/model/experts.h"
#include "schemas/check.h"

namespace shoal::kernels {

QuantRows quantize_rows(
    const Ops& ops, Workspace& space, const Bf16* x, std::int64_t n, std::int64_t k) {
  const QuantRows out{space.take<std::uint8_t>(n * k), space.take<std::uint8_t>(n * k / kGroup)};
  ops.quantize(x, n, k, out);
  return out;
}

void embed_row(const Model& model,
               const HcShape& hc,
               TokenId token,
               const Bf16* feature,
               Bf16* h,
               float* pre) {
  if (feature != nullptr) {
    std::copy_n(feature, hc.dim, h);
  } else {
    copy_bf16_row(model.weights.embed, token, h);
  }
  for (std::int64_t c = 1; c < hc.copies; ++c) {
    std::copy_n(h, hc.dim, h + c * hc.dim);
  }
  std::fill_n(pre, hc.copies, 0.0F);
  pre[0] = 1.0F;
}

namespace {

HcMix take_mix(Workspace& space, const HcShape& hc, std::int64_t n) {
  return HcMix{space.take<float>(n * hc.copies),
               space.take<float>(n * hc.copies),
               space.take<float>(n * hc.copies * hc.copies)};
}

// Gate and routing of u [n][D] into the exchange.
void route_rows(const Ops& ops,
                const ModelConfig& config,
                const BlockWeights& w,
                const BlockRows& rows,
                const Bf16* u,
                int top_k,
                Workspace& space,
                Exchange& exchange) {
  const std::int64_t n = rows.count;
  auto* scores = space.take<float>(n * w.gate.rows);
  ops.gate_scores(w.gate, u, n, scores);
  auto** bias = space.take<const float*>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    bias[i] = rows.image[i] != 0 ? w.gate_bias_vl.data() : w.gate_bias.data();
  }
  auto* experts = space.take<std::int32_t>(n * top_k);
  auto* weights = space.take<float>(n * top_k);
  ops.route(scores, bias, RouteParams{w.gate.rows, top_k, config.route_scale}, n, experts, weights);
  exchange.experts = experts;
  exchange.weights = weights;
}

}  // namespace

PendingExperts pass_to_experts(const Ops& ops,
                               const ModelConfig& config,
                               const HcShape& hc,
                               int layer,
                               const BlockWeights& w,
                               const BlockRows& rows,
                               Workspace& space,
                               const AttentionPart& attention) {
  const std::int64_t n = rows.count;
  const HcMix attn = take_mix(space, hc, n);
  ops.hc_mixes(rows.h, w.hc_attn.view(), hc, n, attn);
  auto* x = space.take<Bf16>(n * hc.dim);
  ops.hc_collapse(rows.h, rows.pre, hc, n, x);
  ops.rms_norm(x, w.attn_norm.data(), n, hc.dim, config.eps, x);
  auto* y = space.take<Bf16>(n * hc.dim);
  attention(x, y);
  ops.hc_expand(y, rows.h, attn.post, attn.comb, hc, n, rows.h);

  PendingExperts pending;
  pending.ffn = take_mix(space, hc, n);
  ops.hc_mixes(rows.h, w.hc_ffn.view(), hc, n, pending.ffn);
  auto* u = space.take<Bf16>(n * hc.dim);
  ops.hc_collapse(rows.h, attn.pre, hc, n, u);
  ops.rms_norm(u, w.ffn_norm.data(), n, hc.dim, config.eps, u);
  pending.shared_input = u;

  Exchange& exchange = pending.exchange;
  exchange.layer = layer;
  exchange.rows = n;
  exchange.top_k =
      layer < config.layers ? config.experts_per_token : config.draft_experts_per_token;
  exchange.dim = hc.dim;
  exchange.x = quantize_rows(ops, space, u, n, hc.dim);
  route_rows(ops, config, w, rows, u, exchange.top_k, space, exchange);
  exchange.outputs = space.take<Bf16>(n * exchange.top_k * hc.dim);
  return pending;
}

void pass_from_experts(const Ops& ops,
                       const ModelConfig& config,
                       const HcShape& hc,
                       const BlockWeights& w,
                       const BlockRows& rows,
                       const PendingExperts& pending,
                       Workspace& space) {
  const std::int64_t n = rows.count;
  const Exchange& exchange = pending.exchange;
  auto* shared = space.take<Bf16>(n * hc.dim);
  run_expert(ops, w.shared, exchange.x, nullptr, config.swiglu_limit, n, space, shared);
  auto* y = space.take<Bf16>(n * hc.dim);
  ops.combine(exchange.outputs, exchange.experts, shared, n, exchange.top_k, hc.dim, y);
  ops.hc_expand(y, rows.h, pending.ffn.post, pending.ffn.comb, hc, n, rows.h);
  std::copy_n(pending.ffn.pre, n * hc.copies, rows.pre);
}

void project_output(const Ops& ops,
                    const ModelConfig& config,
                    const BlockWeights& w,
                    const Bf16* o,
                    std::int64_t n,
                    Workspace& space,
                    Bf16* y) {
  const std::int64_t width = config.heads * config.head_dim;
  const std::int64_t group_width = width / config.o_groups;
  const std::int64_t rank = config.o_groups * config.o_lora;
  auto* z = space.take<Bf16>(n * rank);
  for (std::int64_t g = 0; g < config.o_groups; ++g) {
    ops.linear_bf16(row_range(w.wo_a, g * config.o_lora, config.o_lora),
                    o + g * group_width,
                    width,
                    n,
                    z + g * config.o_lora,
                    rank);
  }
  ops.linear_quantized(w.wo_b, quantize_rows(ops, space, z, n, rank), n, y);
}

EngramToken engram_token(const GraphRun& run, std::int64_t index) {
  const RowRun& plan = *run.plan;
  EngramToken out;
  if (index >= 0) {
    out.known = true;
    out.id = run.tokens[static_cast<std::size_t>(index)];
    out.dead = !plan.image.empty() && plan.image[static_cast<std::size_t>(index)] != 0;
    return out;
  }
  const auto given = static_cast<std::int64_t>(plan.history.size());
  if (given > 0) {
    out.known = -index <= given;
    out.id = out.known ? plan.history[static_cast<std::size_t>(given + index)] : 0;
    return out;
  }
  const Position position = plan.first + index;
  out.known = run.state->recent.get(position, out.id, out.dead);
  CHECK(out.known || position < 0);
  return out;
}

}  // namespace shoal::kernels
