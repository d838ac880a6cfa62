// Golden fixtures for operator tests: tensors by name, and the comparison rules that fit each kind
// of result.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/formats.h"
#include "kernels/model/safetensors.h"
#include "kernels/weight.h"

namespace shoal::kernels::test {

// tests/golden/model/<name>.safetensors. A missing tensor or a wrong dtype fails the test.
class Golden {
 public:
  explicit Golden(const std::string& name);

  std::vector<float> floats(const std::string& name) const;        // F32, or BF16 widened
  std::vector<Bf16> bf16(const std::string& name) const;           // BF16
  std::vector<std::int64_t> ints(const std::string& name) const;   // I32 or I64
  std::vector<std::uint8_t> bytes(const std::string& name) const;  // any one-byte type
  std::int64_t rows(const std::string& name) const;                // first dimension
  std::int64_t cols(const std::string& name) const;                // last dimension

  // NAME as stored; with SCALE (a UE8M0 tensor) a quantised one.
  Weight weight(const std::string& name, const std::string& scale = {}) const;

 private:
  const Tensor& tensor(const std::string& name) const;
  SafetensorsFile file_;
};

// The checkpoint the fixtures were made with.
const Golden& tiny_checkpoint();

// fp32 results: largest difference at most 1e-5 of the rms (summation order, exp). -inf must agree.
void check_fp32(std::span<const float> got, std::span<const float> want);
// bf16 results without a quantiser inside: 99.5 % identical, the rest within 1 bf16 ulp (a sum next
// to a rounding boundary). `operands` (may be empty): magnitudes whose ulp counts instead where
// they are larger, as in a final sum that cancels.
void check_bf16(std::span<const Bf16> got,
                std::span<const Bf16> want,
                std::span<const float> operands = {});
// Steps with a quantiser inside: 97 % identical, relative L2 at most 5e-3 (one bf16 flip may move a
// value by a quantiser step).
void check_quantized(std::span<const Bf16> got, std::span<const Bf16> want);
// Bit for bit.
void check_same(std::span<const Bf16> got, std::span<const Bf16> want);
void check_same(std::span<const float> got, std::span<const float> want);
void check_same(std::span<const std::uint8_t> got, std::span<const std::uint8_t> want);

}  // namespace shoal::kernels::test
