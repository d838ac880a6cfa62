// The CPU operators as tests use them: one table per precision and thread count, and the
// compositions several tests need.
#pragma once

#include <memory>
#include <vector>

#include "kernels/compute_pool.h"
#include "kernels/cpu/cpu_ops.h"

namespace shoal::kernels::test {

struct CpuUnderTest {
  explicit CpuUnderTest(SumPrecision precision,
                        int threads = 1,
                        const cpu::LaneKernels& lanes = cpu::best_lane_kernels())
      : pool(threads),
        ops(make_cpu_ops(pool, precision, lanes)) {}

  const Ops* operator->() const { return ops.get(); }

  ComputePool pool;
  std::unique_ptr<Ops> ops;
};

inline constexpr SumPrecision kPrecisions[] = {SumPrecision::kSingle, SumPrecision::kDouble};

// Quantised activations with their storage.
struct OwnedQuantRows {
  OwnedQuantRows(std::int64_t n, std::int64_t k)
      : codes(static_cast<std::size_t>(n * k)),
        scales(static_cast<std::size_t>(n * k / kGroup)) {}

  QuantRows view() { return {codes.data(), scales.data()}; }

  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
};

inline std::vector<Bf16> quantized_linear(const Ops& ops,
                                          const Weight& w,
                                          const std::vector<Bf16>& x) {
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / w.cols;
  OwnedQuantRows rows(n, w.cols);
  std::vector<Bf16> y(static_cast<std::size_t>(n * w.rows));
  ops.quantize(x.data(), n, w.cols, rows.view());
  ops.linear_quantized(w, rows.view(), n, y.data());
  return y;
}

inline std::vector<Bf16> plain_linear(const Ops& ops, const Weight& w, const std::vector<Bf16>& x) {
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / w.cols;
  std::vector<Bf16> y(static_cast<std::size_t>(n * w.rows));
  ops.linear_bf16(w, x.data(), w.cols, n, y.data(), w.rows);
  return y;
}

inline std::vector<float> float_linear(const Ops& ops,
                                       const Weight& w,
                                       const std::vector<Bf16>& x) {
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / w.cols;
  std::vector<float> y(static_cast<std::size_t>(n * w.rows));
  ops.linear_f32(w, x.data(), n, y.data());
  return y;
}

inline std::vector<Bf16> norm(const Ops& ops,
                              const std::vector<float>& w,
                              std::vector<Bf16> x,
                              float eps = 1e-20F) {
  const auto d = static_cast<std::int64_t>(w.size());
  ops.rms_norm(x.data(), w.data(), static_cast<std::int64_t>(x.size()) / d, d, eps, x.data());
  return x;
}

// Addresses of the rows of a packed buffer.
inline std::vector<std::byte*> row_addresses(std::vector<std::uint8_t>& bytes,
                                             std::int64_t row_bytes) {
  std::vector<std::byte*> rows;
  for (std::size_t i = 0; i < bytes.size(); i += static_cast<std::size_t>(row_bytes)) {
    rows.push_back(reinterpret_cast<std::byte*>(bytes.data() + i));
  }
  return rows;
}

// Rows of codes followed by their scales, from separate arrays: what the caches store.
inline std::vector<std::uint8_t> join_rows(const std::vector<std::uint8_t>& codes,
                                           const std::vector<std::uint8_t>& scales,
                                           std::size_t rows) {
  std::vector<std::uint8_t> joined;
  const std::size_t c = codes.size() / rows;
  const std::size_t s = scales.size() / rows;
  for (std::size_t i = 0; i < rows; ++i) {
    joined.insert(joined.end(),
                  codes.begin() + static_cast<std::ptrdiff_t>(i * c),
                  codes.begin() + static_cast<std::ptrdiff_t>((i + 1) * c));
    joined.insert(joined.end(),
                  scales.begin() + static_cast<std::ptrdiff_t>(i * s),
                  scales.begin() + static_cast<std::ptrdiff_t>((i + 1) * s));
  }
  return joined;
}

}  // namespace shoal::kernels::test
