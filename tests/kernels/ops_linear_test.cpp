// Linear layers against the reference, in both precisions.
#include <algorithm>
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"

namespace shoal::kernels::test {

TEST_CASE("linear layers agree with the reference in every weight format") {
  const Golden golden("ops/linear");
  const std::vector<Bf16> x = golden.bf16("x");
  for (const SumPrecision precision : kPrecisions) {
    CAPTURE(precision);
    const CpuUnderTest cpu(precision);
    check_bf16(quantized_linear(*cpu.ops, golden.weight("fp8.weight", "fp8.scale"), x),
               golden.bf16("fp8.y"));
    check_bf16(quantized_linear(*cpu.ops, golden.weight("fp4.weight", "fp4.scale"), x),
               golden.bf16("fp4.y"));
    check_bf16(plain_linear(*cpu.ops, golden.weight("bf16.weight"), x), golden.bf16("bf16.y"));
    check_fp32(float_linear(*cpu.ops, golden.weight("bf16.weight"), x), golden.floats("fp32.y"));
  }
}

TEST_CASE("with exact sums linear layers equal the reference bit for bit") {
  const Golden golden("ops/linear");
  const std::vector<Bf16> x = golden.bf16("x");
  const CpuUnderTest cpu(SumPrecision::kDouble);
  check_same(quantized_linear(*cpu.ops, golden.weight("fp8.weight", "fp8.scale"), x),
             golden.bf16("fp8.y"));
  check_same(quantized_linear(*cpu.ops, golden.weight("fp4.weight", "fp4.scale"), x),
             golden.bf16("fp4.y"));
  check_same(plain_linear(*cpu.ops, golden.weight("bf16.weight"), x), golden.bf16("bf16.y"));
}

TEST_CASE("an fp8 weight used in bf16 equals the same weight stored in bf16") {
  const Golden golden("ops/linear");
  const Weight fp8 = golden.weight("fp8.weight", "fp8.scale");
  const auto* codes = reinterpret_cast<const std::uint8_t*>(fp8.values);
  std::vector<Bf16> stored;
  for (std::int64_t r = 0; r < fp8.rows; ++r) {
    for (std::int64_t k = 0; k < fp8.cols; ++k) {
      stored.push_back(to_bf16(kE4m3[codes[r * fp8.cols + k]] *
                               ue8m0(fp8.scales[r / 32 * (fp8.cols / 32) + k / 32])));
    }
  }
  const Weight bf16{WeightFormat::kBf16,
                    fp8.rows,
                    fp8.cols,
                    reinterpret_cast<const std::byte*>(stored.data()),
                    nullptr};
  const std::vector<Bf16> x = golden.bf16("x");
  const CpuUnderTest cpu(SumPrecision::kSingle);
  check_same(plain_linear(*cpu.ops, fp8, x), plain_linear(*cpu.ops, bf16, x));
}

TEST_CASE("row strides select a slice of wider rows") {
  const Golden golden("ops/linear");
  const Weight w = golden.weight("bf16.weight");
  const std::vector<Bf16> x = golden.bf16("x");
  const std::int64_t n = golden.rows("x");
  const CpuUnderTest cpu(SumPrecision::kSingle);
  std::vector<Bf16> wide_x(static_cast<std::size_t>(n * 2 * w.cols));
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(x.begin() + i * w.cols, w.cols, wide_x.begin() + i * 2 * w.cols);
  }
  std::vector<Bf16> wide_y(static_cast<std::size_t>(n * 3 * w.rows));
  cpu->linear_bf16(w, wide_x.data(), 2 * w.cols, n, wide_y.data(), 3 * w.rows);
  const std::vector<Bf16> y = plain_linear(*cpu.ops, w, x);
  for (std::int64_t i = 0; i < n; ++i) {
    check_same(std::span(wide_y).subspan(static_cast<std::size_t>(i * 3 * w.rows),
                                         static_cast<std::size_t>(w.rows)),
               std::span(y).subspan(static_cast<std::size_t>(i * w.rows),
                                    static_cast<std::size_t>(w.rows)));
  }
}

}  // namespace shoal::kernels::test
