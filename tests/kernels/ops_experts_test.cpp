// Gate, routing, experts and their sum against the reference: plain, image rows, clamped
// activations.
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"
#include "kernels/cpu/scalar_math.h"

namespace shoal::kernels::test {

namespace {

constexpr RouteParams kRoute{.experts = 8, .top_k = 2, .scale = 1.5F};
constexpr float kLimit = 10.0F;
const std::string kLayer = "layers.3.ffn.";

struct Routing {
  std::vector<float> scores;
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routing route_rows(const Ops& ops, const std::vector<Bf16>& x, const std::string& bias_name) {
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / 128;
  const std::vector<float> bias = tiny_checkpoint().floats(kLayer + bias_name);
  const std::vector<const float*> rows(static_cast<std::size_t>(n), bias.data());
  Routing out;
  out.scores.resize(static_cast<std::size_t>(n * kRoute.experts));
  out.experts.resize(static_cast<std::size_t>(n * kRoute.top_k));
  out.weights.resize(out.experts.size());
  ops.gate_scores(tiny_checkpoint().weight(kLayer + "gate.weight"), x.data(), n, out.scores.data());
  ops.route(out.scores.data(), rows.data(), kRoute, n, out.experts.data(), out.weights.data());
  return out;
}

// One expert on rows of x, weights may be null.
std::vector<Bf16> run_expert(const Ops& ops,
                             const std::string& name,
                             const std::vector<Bf16>& x,
                             const float* weights) {
  const auto weight = [&](const char* w) {
    return tiny_checkpoint().weight(name + w + ".weight", name + w + ".scale");
  };
  const std::vector<Bf16> g = quantized_linear(ops, weight(".w1"), x);
  const std::vector<Bf16> u = quantized_linear(ops, weight(".w3"), x);
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / 128;
  std::vector<Bf16> t(g.size());
  ops.swiglu(
      g.data(), u.data(), weights, kLimit, n, static_cast<std::int64_t>(g.size()) / n, t.data());
  return quantized_linear(ops, weight(".w2"), t);
}

std::vector<Bf16> chosen_outputs(const Ops& ops,
                                 const std::vector<Bf16>& x,
                                 const Routing& routing) {
  std::vector<Bf16> outputs;
  for (std::size_t i = 0; i < routing.experts.size(); ++i) {
    const auto row = static_cast<std::ptrdiff_t>(i / 2 * 128);
    const std::vector<Bf16> one(x.begin() + row, x.begin() + row + 128);
    const std::string name = kLayer + "experts." + std::to_string(routing.experts[i]);
    const std::vector<Bf16> y = run_expert(ops, name, one, &routing.weights[i]);
    outputs.insert(outputs.end(), y.begin(), y.end());
  }
  return outputs;
}

std::vector<Bf16> first_of_each(const std::vector<Bf16>& outputs) {
  std::vector<Bf16> first;
  for (std::size_t i = 0; i < outputs.size(); i += 256) {
    first.insert(first.end(),
                 outputs.begin() + static_cast<std::ptrdiff_t>(i),
                 outputs.begin() + static_cast<std::ptrdiff_t>(i + 128));
  }
  return first;
}

}  // namespace

TEST_CASE("gate, routing, experts and their sum agree with the reference") {
  const Golden golden("ops/moe");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    for (const std::string p : {"plain.", "image.", "clamped."}) {
      CAPTURE(p);
      const std::vector<Bf16> x = golden.bf16(p + "x");
      const Routing routing = route_rows(*cpu.ops, x, p == "image." ? "gate.bias_vl" : "gate.bias");
      check_fp32(routing.scores, golden.floats(p + "scores"));
      CHECK(std::vector<std::int64_t>(routing.experts.begin(), routing.experts.end()) ==
            golden.ints(p + "experts"));
      check_fp32(routing.weights, golden.floats(p + "weights"));

      const std::vector<Bf16> shared = run_expert(*cpu.ops, kLayer + "shared_experts", x, nullptr);
      check_quantized(shared, golden.bf16(p + "shared"));
      const std::vector<Bf16> outputs = chosen_outputs(*cpu.ops, x, routing);
      check_quantized(first_of_each(outputs), golden.bf16(p + "first_expert"));
      std::vector<Bf16> y(x.size());
      cpu->combine(outputs.data(),
                   routing.experts.data(),
                   shared.data(),
                   static_cast<std::int64_t>(x.size()) / 128,
                   2,
                   128,
                   y.data());
      check_quantized(y, golden.bf16(p + "y"));
    }
  }
}

TEST_CASE("the gate's activation keeps its precision from -20 to 20 and beyond") {
  const Golden golden("ops/moe");
  std::vector<float> got;
  for (const float x : golden.floats("sqrtsoftplus.in")) {
    got.push_back(cpu::sqrt_softplus(x));
  }
  const std::vector<float> want = golden.floats("sqrtsoftplus.out");
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-6));
  }
}

TEST_CASE("equal biased scores go to the lower expert, best first") {
  const CpuUnderTest cpu(SumPrecision::kSingle);
  const std::vector<float> scores = {0.25F, 0.5F, 0.25F, 0.75F, 0.5F};
  const std::vector<float> bias = {0.0F, 0.0F, 0.25F, -0.25F, 0.0F};  // biased: .25 .5 .5 .5 .5
  const float* row = bias.data();
  std::vector<std::int32_t> experts(3);
  std::vector<float> weights(3);
  cpu->route(scores.data(),
             &row,
             {.experts = 5, .top_k = 3, .scale = 2.0F},
             1,
             experts.data(),
             weights.data());
  CHECK(experts == std::vector<std::int32_t>{1, 2, 3});
  CHECK(weights[0] == doctest::Approx(2.0 / 3));  // unbiased scores .5, .25, .75
  CHECK(weights[2] == doctest::Approx(1.0));
}

}  // namespace shoal::kernels::test
