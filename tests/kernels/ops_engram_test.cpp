// Engram lookup, linear, gate and update against the reference.
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"
#include "kernels/cpu/scalar_math.h"

namespace shoal::kernels::test {

namespace {

constexpr HcShape kShape{.copies = 4, .dim = 128};
const std::string kLayer = "layers.4.engram.";

EngramTable table() {
  const Weight w = tiny_checkpoint().weight(kLayer + "embed.weight", kLayer + "embed.scale");
  return {reinterpret_cast<const std::uint8_t*>(w.values), w.scales, w.rows, w.cols};
}

std::vector<float> key_weight() {
  std::vector<float> product = tiny_checkpoint().floats(kLayer + "q_weight");
  const std::vector<float> k = tiny_checkpoint().floats(kLayer + "k_weight");
  for (std::size_t i = 0; i < product.size(); ++i) {
    product[i] *= k[i];
  }
  return product;
}

// Rows of layer 4, the second Engram layer: rows is [24][2][6].
std::vector<std::int64_t> layer_rows(const Golden& golden) {
  const std::vector<std::int64_t> all = golden.ints("rows");
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i / 6 % 2 == 1) {
      rows.push_back(all[i]);
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("engram lookup equals the reference and its linear agrees") {
  const Golden golden("ops/engram");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    std::vector<Bf16> looked_up(24 * 6 * 32);
    cpu->engram_lookup(table(), layer_rows(golden).data(), 24, 6, looked_up.data());
    check_same(looked_up, golden.bf16("looked_up"));
    check_bf16(
        quantized_linear(*cpu.ops,
                         tiny_checkpoint().weight(kLayer + "wkv.weight", kLayer + "wkv.scale"),
                         looked_up),
        golden.bf16("kv"));
  }
}

TEST_CASE("engram gates and the update of the residual stream agree with the reference") {
  const Golden golden("ops/engram");
  std::vector<std::uint8_t> open(24, 1);
  const std::vector<std::uint8_t> dead = golden.bytes("dead");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    std::vector<float> gates(24 * 4);
    std::vector<Bf16> h = golden.bf16("h");
    cpu->engram_update(h.data(),
                       golden.bf16("kv").data(),
                       key_weight().data(),
                       open.data(),
                       kShape,
                       24,
                       gates.data());
    check_fp32(gates, golden.floats("gate"));

    for (std::size_t i = 0; i < open.size(); ++i) {
      open[i] = dead[i] != 0 ? 0 : 1;
    }
    h = golden.bf16("h");
    cpu->engram_update(
        h.data(), golden.bf16("kv").data(), key_weight().data(), open.data(), kShape, 24, nullptr);
    check_quantized(h, golden.bf16("out"));
    const std::vector<Bf16> before = golden.bf16("h");
    check_same(std::span(h).subspan(7 * 512, 512),
               std::span(before).subspan(7 * 512, 512));  // a shut gate
    std::fill(open.begin(), open.end(), std::uint8_t{1});
  }
}

TEST_CASE("the engram gate follows the sign of its argument, zero included") {
  const Golden golden("ops/engram");
  std::vector<float> got;
  for (const float x : golden.floats("gate_of_dot.in")) {
    got.push_back(cpu::engram_gate(x));
  }
  check_fp32(got, golden.floats("gate_of_dot.out"));
}

}  // namespace shoal::kernels::test
