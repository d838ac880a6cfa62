// Reads fixtures and compares by the rules of the golden data.
#include "golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>

namespace shoal::kernels::test {

namespace {

SafetensorsFile open_fixture(const std::string& name) {
  auto file =
      SafetensorsFile::open(std::string(SHOAL_GOLDEN_DIR) + "/model/" + name + ".safetensors");
  REQUIRE_MESSAGE(file.has_value(), name);
  return std::move(*file);
}

template <class T>
std::vector<T> copy_of(const Tensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// Distance of neighbouring bf16 numbers at this magnitude.
float bf16_ulp(float x) {
  if (x == 0.0F) {
    return 0x1p-133F;
  }
  return std::max(std::ldexp(1.0F, std::ilogb(x) - 7), 0x1p-133F);
}

struct Difference {
  std::size_t differing = 0;
  double squared = 0;
  double rms_of_want = 0;

  double relative_l2(std::size_t n) const {
    return std::sqrt(squared / static_cast<double>(n)) / std::max(rms_of_want, 1e-30);
  }
};

Difference compare(std::span<const Bf16> got, std::span<const Bf16> want) {
  REQUIRE(got.size() == want.size());
  REQUIRE(!want.empty());
  Difference difference;
  double square = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference.differing += got[i] == want[i] ? 0 : 1;
    const double delta =
        static_cast<double>(to_float(got[i])) - static_cast<double>(to_float(want[i]));
    difference.squared += delta * delta;
    square += static_cast<double>(to_float(want[i])) * static_cast<double>(to_float(want[i]));
  }
  difference.rms_of_want = std::sqrt(square / static_cast<double>(want.size()));
  return difference;
}

template <class T>
void check_bits(std::span<const T> got, std::span<const T> want) {
  REQUIRE(got.size() == want.size());
  REQUIRE(!want.empty());
  CHECK(std::memcmp(got.data(), want.data(), want.size_bytes()) == 0);
}

}  // namespace

Golden::Golden(const std::string& name) : file_(open_fixture(name)) {}

const Tensor& Golden::tensor(const std::string& name) const {
  const Tensor* tensor = file_.find(name);
  REQUIRE_MESSAGE(tensor != nullptr, name);
  return *tensor;
}

std::vector<float> Golden::floats(const std::string& name) const {
  const Tensor& t = tensor(name);
  if (t.dtype == Dtype::kF32) {
    return copy_of<float>(t);
  }
  std::vector<float> values;
  for (const Bf16 x : bf16(name)) {
    values.push_back(to_float(x));
  }
  return values;
}

std::vector<Bf16> Golden::bf16(const std::string& name) const {
  REQUIRE_MESSAGE(tensor(name).dtype == Dtype::kBf16, name);
  return copy_of<Bf16>(tensor(name));
}

std::vector<std::int64_t> Golden::ints(const std::string& name) const {
  const Tensor& t = tensor(name);
  if (t.dtype == Dtype::kI64) {
    return copy_of<std::int64_t>(t);
  }
  REQUIRE_MESSAGE(t.dtype == Dtype::kI32, name);
  const std::vector<std::int32_t> values = copy_of<std::int32_t>(t);
  return {values.begin(), values.end()};
}

std::vector<std::uint8_t> Golden::bytes(const std::string& name) const {
  REQUIRE_MESSAGE(dtype_bytes(tensor(name).dtype) == 1, name);
  return copy_of<std::uint8_t>(tensor(name));
}

std::int64_t Golden::rows(const std::string& name) const {
  return tensor(name).shape.front();
}

std::int64_t Golden::cols(const std::string& name) const {
  return tensor(name).shape.back();
}

Weight Golden::weight(const std::string& name, const std::string& scale) const {
  const Tensor& t = tensor(name);
  REQUIRE(t.shape.size() == 2);
  Weight w{.format = WeightFormat::kF32,
           .rows = t.shape[0],
           .cols = t.shape[1],
           .values = t.bytes.data()};
  switch (t.dtype) {
    case Dtype::kF32:
      break;
    case Dtype::kBf16:
      w.format = WeightFormat::kBf16;
      break;
    case Dtype::kF8E4m3:
      w.format = WeightFormat::kFp8;
      break;
    default:
      REQUIRE_MESSAGE(dtype_bytes(t.dtype) == 1, name);
      w.format = WeightFormat::kFp4;
      w.cols *= 2;
  }
  if (!scale.empty()) {
    w.scales = reinterpret_cast<const std::uint8_t*>(tensor(scale).bytes.data());
  }
  return w;
}

const Golden& tiny_checkpoint() {
  static const Golden checkpoint("tiny-random/model");
  return checkpoint;
}

void check_fp32(std::span<const float> got, std::span<const float> want) {
  REQUIRE(got.size() == want.size());
  REQUIRE(!want.empty());
  double square = 0;
  double worst = 0;
  std::size_t finite = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i])) {
      CHECK(got[i] == want[i]);
      continue;
    }
    ++finite;
    square += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    const double delta = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    worst = delta <= worst ? worst : delta;  // NaN becomes the worst
  }
  CHECK(worst <= 1e-5 * std::sqrt(square / static_cast<double>(finite)));
}

void check_bf16(std::span<const Bf16> got,
                std::span<const Bf16> want,
                std::span<const float> operands) {
  const Difference difference = compare(got, want);
  CHECK(static_cast<double>(difference.differing) <= 0.005 * static_cast<double>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] != want[i]) {
      const float g = to_float(got[i]);
      const float w = to_float(want[i]);
      const float operand = operands.empty() ? 0.0F : std::fabs(operands[i]);
      CHECK(std::fabs(g - w) <= bf16_ulp(std::max({std::fabs(w), std::fabs(g), operand})));
    }
  }
}

void check_quantized(std::span<const Bf16> got, std::span<const Bf16> want) {
  const Difference difference = compare(got, want);
  CHECK(static_cast<double>(difference.differing) <= 0.03 * static_cast<double>(want.size()));
  CHECK(difference.relative_l2(want.size()) <= 5e-3);
}

void check_same(std::span<const Bf16> got, std::span<const Bf16> want) {
  check_bits(got, want);
}

void check_same(std::span<const float> got, std::span<const float> want) {
  check_bits(got, want);
}

void check_same(std::span<const std::uint8_t> got, std::span<const std::uint8_t> want) {
  check_bits(got, want);
}

}  // namespace shoal::kernels::test
