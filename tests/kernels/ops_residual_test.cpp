// Norm, hyper-connections and head against the reference, in both precisions.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"

namespace shoal::kernels::test {

namespace {

constexpr HcShape kShape{.copies = 4, .dim = 128};

struct Mixes {
  explicit Mixes(std::int64_t n)
      : pre(static_cast<std::size_t>(n * 4)),
        post(static_cast<std::size_t>(n * 4)),
        comb(static_cast<std::size_t>(n * 16)) {}

  HcMix view() { return {pre.data(), post.data(), comb.data()}; }

  std::vector<float> pre, post, comb;
};

}  // namespace

TEST_CASE(
    "rms norm agrees with the reference from 1e-12 to 1e8, for a zero row and a one-hot row") {
  const Golden golden("ops/norm");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    check_bf16(norm(*cpu.ops, golden.floats("weight"), golden.bf16("x")), golden.bf16("y"));
  }
}

TEST_CASE("hyper-connection mixes agree with the reference") {
  const Golden golden("ops/mhc");
  const std::vector<float> fn = tiny_checkpoint().floats("layers.3.hc_attn_fn");
  const std::vector<float> base = tiny_checkpoint().floats("layers.3.hc_attn_base");
  const std::vector<float> scale = tiny_checkpoint().floats("layers.3.hc_attn_scale");
  const HcWeights weights{fn.data(), base.data(), scale.data()};
  const std::int64_t n = golden.rows("h");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    Mixes whole(n);
    cpu->hc_mixes(golden.bf16("h").data(), weights, kShape, n, whole.view());
    check_fp32(whole.pre, golden.floats("pre"));
    check_fp32(whole.post, golden.floats("post"));
    check_fp32(whole.comb, golden.floats("comb"));
    Mixes second(n);
    cpu->hc_split(golden.floats("m").data(), weights, kShape, n, second.view());
    check_fp32(second.pre, golden.floats("pre"));
    check_fp32(second.comb, golden.floats("comb"));
  }
}

TEST_CASE("splitting the published projections gives the published mixes") {
  const Golden golden("ops/mhc");
  const std::vector<float> base = golden.floats("split.base");
  const std::vector<float> scale = golden.floats("split.scale");
  const CpuUnderTest cpu(SumPrecision::kSingle);
  Mixes mixes(1);
  cpu->hc_split(golden.floats("split.m").data(),
                {nullptr, base.data(), scale.data()},
                kShape,
                1,
                mixes.view());
  check_fp32(mixes.pre, golden.floats("split.pre"));
  check_fp32(mixes.post, golden.floats("split.post"));
  check_fp32(mixes.comb, golden.floats("split.comb"));
}

TEST_CASE("collapsing and expanding the residual copies agree with the reference") {
  const Golden golden("ops/mhc");
  const std::int64_t n = golden.rows("h");
  const std::vector<Bf16> h = golden.bf16("h");
  const std::vector<Bf16> y = golden.bf16("y");
  const std::vector<float> post = golden.floats("post");
  const std::vector<float> comb = golden.floats("comb");
  const std::vector<Bf16> expected = golden.bf16("expanded");
  std::vector<float> operands;  // larger operand of each final sum
  for (std::size_t i = 0; i < h.size(); ++i) {
    const std::size_t row = i / 512;
    const float update = post[row * 4 + i / 128 % 4] * to_float(y[row * 128 + i % 128]);
    const float result = to_float(expected[i]);
    operands.push_back(std::max(std::fabs(update), std::fabs(result - update)));
  }
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    std::vector<Bf16> collapsed(static_cast<std::size_t>(n * 128));
    cpu->hc_collapse(h.data(), golden.floats("pre_mix_in").data(), kShape, n, collapsed.data());
    check_bf16(collapsed, golden.bf16("collapsed"));
    std::vector<Bf16> expanded = h;  // in place
    cpu->hc_expand(y.data(), expanded.data(), post.data(), comb.data(), kShape, n, expanded.data());
    check_bf16(expanded, golden.bf16("expanded"), operands);
  }
}

TEST_CASE("taps and head agree with the reference") {
  const Golden golden("ops/head");
  const std::int64_t n = golden.rows("h");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    std::vector<Bf16> x(static_cast<std::size_t>(n * 128));
    cpu->hc_collapse(golden.bf16("h").data(), golden.floats("pre").data(), kShape, n, x.data());
    x = norm(*cpu.ops, tiny_checkpoint().floats("norm.weight"), x);
    check_fp32(float_linear(*cpu.ops, tiny_checkpoint().weight("head.weight"), x),
               golden.floats("logits"));
    std::vector<Bf16> tap(static_cast<std::size_t>(n * 128));
    cpu->hc_mean(golden.bf16("tap_in").data(), kShape, n, tap.data());
    check_bf16(tap, golden.bf16("tap"));
  }
}

}  // namespace shoal::kernels::test
