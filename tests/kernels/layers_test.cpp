// Every step of every layer against the golden data, its inputs forced to the recorded ones, with
// the product's own sums: what whole passes cannot show tightly, because a flipped code spreads.
#include <cmath>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/model/block_pass.h"
#include "kernels/model/experts.h"
#include "kernels/model/model.h"
#include "tests/kernels/golden.h"

namespace shoal::kernels {
namespace {

using test::check_bf16;
using test::check_quantized;
using test::Golden;

using Rows = std::vector<Bf16>;

struct LayerFixture {
  Golden golden{"layers"};
  std::shared_ptr<const Model> model =
      *Model::load(std::string(SHOAL_GOLDEN_DIR) + "/model/tiny-random");
  ComputePool pool{1};
  std::unique_ptr<Ops> ops = make_cpu_ops(pool, SumPrecision::kSingle);
  Workspace space;
  const ModelConfig& c = model->config;
  HcShape hc{c.hc, c.dim, c.hc_iters, c.hc_eps, c.eps};
  std::int64_t n = golden.rows("tokens");
  std::vector<std::int64_t> positions;

  LayerFixture() {
    for (std::int64_t i = 0; i < n; ++i) {
      positions.push_back(i);
    }
  }

  std::string name(int layer, const std::string& what) const {
    return "layers." + std::to_string(layer) + "." + what;
  }

  Rows rows(int layer, const std::string& what) const { return golden.bf16(name(layer, what)); }

  const BlockWeights& block(int layer) const {
    return model->weights.blocks[static_cast<std::size_t>(layer)];
  }

  // Normalised input of a sublayer from the residual stream and a mix.
  Rows collapsed(const Rows& h, const std::vector<float>& mix, const Vector& norm) {
    Rows out(static_cast<std::size_t>(n * c.dim));
    ops->hc_collapse(h.data(), mix.data(), hc, n, out.data());
    ops->rms_norm(out.data(), norm.data(), n, c.dim, c.eps, out.data());
    return out;
  }

  Rows quantized_linear(const Weight& w, const Rows& x) {
    Rows out(static_cast<std::size_t>(n * w.rows));
    ops->linear_quantized(w, quantize_rows(*ops, space, x.data(), n, w.cols), n, out.data());
    return out;
  }

  Rows expanded(const Rows& y,
                const Rows& h,
                const HyperConnection& w,
                std::vector<float>& operands) {
    std::vector<float> pre(static_cast<std::size_t>(n * hc.copies));
    std::vector<float> post(pre.size());
    std::vector<float> comb(static_cast<std::size_t>(n * hc.copies * hc.copies));
    ops->hc_mixes(h.data(), w.view(), hc, n, HcMix{pre.data(), post.data(), comb.data()});
    Rows out(h.size());
    ops->hc_expand(y.data(), h.data(), post.data(), comb.data(), hc, n, out.data());
    // The larger operand of the final sum: post * y.
    operands.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < hc.copies; ++k) {
        for (std::int64_t d = 0; d < hc.dim; ++d) {
          operands.push_back(std::abs(post[static_cast<std::size_t>(i * hc.copies + k)] *
                                      to_float(y[static_cast<std::size_t>(i * hc.dim + d)])));
        }
      }
    }
    return out;
  }

  Rows attention_core(int layer) {
    Rows q = quantized_linear(block(layer).wq_b, rows(layer, "qr"));
    ops->rope(q.data(), positions.data(), model->freqs(layer), n, c.heads, c.head_dim, false);
    const bool compressed = c.ratios[static_cast<std::size_t>(layer)] > 0;
    const Rows window = rows(layer, "window_kv");
    const Rows main = compressed ? rows(c.kv_owner(layer), "main_kv") : Rows{};
    const auto topk =
        compressed ? golden.ints(name(c.index_owner(layer), "topk")) : std::vector<std::int64_t>{};
    const std::int64_t length = c.window + (compressed ? c.index_topk : 0);
    std::vector<KvEntry> lists(static_cast<std::size_t>(n * length));
    const auto entry = [&](const Rows& from, std::int64_t row) {
      return KvEntry{reinterpret_cast<const std::byte*>(from.data() + row * c.head_dim),
                     EntryFormat::kBf16};
    };
    for (std::int64_t i = 0; i < n; ++i) {
      KvEntry* list = lists.data() + i * length;
      for (std::int64_t p = std::max<std::int64_t>(0, i - c.window + 1); p <= i; ++p) {
        list[c.window - 1 - (i - p)] = entry(window, p);
      }
      for (std::int64_t k = 0; compressed && k < c.index_topk; ++k) {
        const std::int64_t pick = topk[static_cast<std::size_t>(i * c.index_topk + k)];
        list[c.window + k] = pick < 0 ? KvEntry{} : entry(main, pick);
      }
    }
    Rows o(q.size());
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
    ops->attention(q.data(),
                   lists.data(),
                   length,
                   block(layer).sink.data(),
                   scale,
                   n,
                   c.heads,
                   c.head_dim,
                   o.data());
    return o;
  }

  // Values of packed window rows.
  Rows window_rows(int layer) {
    Rows kv = quantized_linear(block(layer).wkv, rows(layer, "attn_in"));
    ops->rms_norm(kv.data(), block(layer).kv_norm.data(), n, c.head_dim, c.eps, kv.data());
    ops->rope(kv.data(), positions.data(), model->freqs(layer), n, 1, c.head_dim, false);
    const std::int64_t bytes = window_row_bytes(c.head_dim);
    std::vector<std::byte> packed(static_cast<std::size_t>(n * bytes));
    std::vector<std::byte*> out;
    for (std::int64_t i = 0; i < n; ++i) {
      out.push_back(packed.data() + i * bytes);
    }
    ops->pack_window(kv.data(), n, c.head_dim, out.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(out[static_cast<std::size_t>(i)]);
      for (std::int64_t d = 0; d < c.head_dim; ++d) {
        kv[static_cast<std::size_t>(i * c.head_dim + d)] =
            to_bf16(kE4m3[codes[d]] * ue8m0(codes[c.head_dim + d / kGroup]));
      }
    }
    return kv;
  }
};

}  // namespace

TEST_CASE("attention of every layer, step by step from recorded inputs") {
  LayerFixture f;
  for (int layer = 0; layer < f.c.layers; ++layer) {
    CAPTURE(layer);
    const BlockWeights& w = f.block(layer);
    check_bf16(
        f.collapsed(f.rows(layer, "x_in"), f.golden.floats(f.name(layer, "pre_in")), w.attn_norm),
        f.rows(layer, "attn_in"));
    Rows qr = f.quantized_linear(w.wq_a, f.rows(layer, "attn_in"));
    f.ops->rms_norm(qr.data(), w.q_norm.data(), f.n, f.c.q_lora, f.c.eps, qr.data());
    check_bf16(qr, f.rows(layer, "qr"));
    check_quantized(f.window_rows(layer), f.rows(layer, "window_kv"));
    check_bf16(f.attention_core(layer), f.rows(layer, "attn_core"));
    Rows o = f.rows(layer, "attn_core");
    f.ops->rope(
        o.data(), f.positions.data(), f.model->freqs(layer), f.n, f.c.heads, f.c.head_dim, true);
    Rows y(static_cast<std::size_t>(f.n * f.c.dim));
    project_output(*f.ops, f.c, w, o.data(), f.n, f.space, y.data());
    check_quantized(y, f.rows(layer, "attn_out"));
    std::vector<float> operands;
    const Rows mid =
        f.expanded(f.rows(layer, "attn_out"), f.rows(layer, "x_in"), w.hc_attn, operands);
    check_bf16(mid, f.rows(layer, "x_mid"), operands);
  }
}

TEST_CASE("experts of every layer, step by step from recorded inputs") {
  LayerFixture f;
  for (int layer = 0; layer < f.c.layers; ++layer) {
    CAPTURE(layer);
    const BlockWeights& w = f.block(layer);
    check_bf16(
        f.collapsed(
            f.rows(layer, "x_mid"), f.golden.floats(f.name(layer, "hc_attn_pre")), w.ffn_norm),
        f.rows(layer, "ffn_in"));

    const Rows u = f.rows(layer, "ffn_in");
    std::vector<float> scores(static_cast<std::size_t>(f.n * f.c.experts));
    f.ops->gate_scores(w.gate, u.data(), f.n, scores.data());
    const std::vector<const float*> bias(static_cast<std::size_t>(f.n), w.gate_bias.data());
    std::vector<std::int32_t> experts(static_cast<std::size_t>(f.n * f.c.experts_per_token));
    std::vector<float> weights(experts.size());
    f.ops->route(scores.data(),
                 bias.data(),
                 RouteParams{f.c.experts, f.c.experts_per_token, f.c.route_scale},
                 f.n,
                 experts.data(),
                 weights.data());
    // The smallest expert margin of these rows is 2e-3: every choice is safe.
    CHECK(std::vector<std::int64_t>(experts.begin(), experts.end()) ==
          f.golden.ints(f.name(layer, "experts")));
    test::check_fp32(weights, f.golden.floats(f.name(layer, "expert_weights")));

    f.space.reset();
    Rows outputs(static_cast<std::size_t>(f.n * f.c.experts_per_token * f.c.dim));
    Exchange exchange{layer,
                      f.n,
                      f.c.experts_per_token,
                      f.c.dim,
                      quantize_rows(*f.ops, f.space, u.data(), f.n, f.c.dim),
                      experts.data(),
                      weights.data(),
                      outputs.data()};
    LocalExperts(*f.model, *f.ops).run(exchange);
    Rows shared(static_cast<std::size_t>(f.n * f.c.dim));
    run_expert(
        *f.ops, w.shared, exchange.x, nullptr, f.c.swiglu_limit, f.n, f.space, shared.data());
    Rows y(shared.size());
    f.ops->combine(outputs.data(),
                   experts.data(),
                   shared.data(),
                   f.n,
                   f.c.experts_per_token,
                   f.c.dim,
                   y.data());
    check_quantized(y, f.rows(layer, "ffn_out"));
    std::vector<float> operands;
    const Rows out =
        f.expanded(f.rows(layer, "ffn_out"), f.rows(layer, "x_mid"), w.hc_ffn, operands);
    check_bf16(out, f.rows(layer, "x_out"), operands);
  }
}

TEST_CASE("Engram updates the stream of its layers as recorded") {
  LayerFixture f;
  for (const int layer : f.c.engram_layers) {
    CAPTURE(layer);
    const EngramWeights& w = f.block(layer).engram;
    const auto ids = f.golden.ints(f.name(layer, "engram_rows"));
    const std::int64_t columns = f.model->engram.hash.columns();
    Rows looked_up(static_cast<std::size_t>(f.n * columns * f.c.engram_dim));
    f.ops->engram_lookup(w.table, ids.data(), f.n, columns, looked_up.data());
    const Rows kv = f.quantized_linear(w.wkv, looked_up);
    Rows h = f.rows(layer, "engram_in");
    const std::vector<std::uint8_t> open(static_cast<std::size_t>(f.n), 1);
    f.ops->engram_update(h.data(), kv.data(), w.weight.data(), open.data(), f.hc, f.n, nullptr);
    check_quantized(h, f.rows(layer, "x_in"));
  }
}

}  // namespace shoal::kernels
