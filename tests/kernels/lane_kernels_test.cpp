// Every instruction set gives the same sums, of any rows.
#include "kernels/cpu/lane_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/decode.h"
#include "kernels/formats.h"

namespace shoal::kernels::cpu {

namespace {

constexpr unsigned kSeed = 41;

enum class Kind { kFp8, kFp4, kBf16, kF32, kExact };

constexpr Kind kKinds[] = {Kind::kFp8, Kind::kFp4, Kind::kBf16, Kind::kF32, Kind::kExact};

MultiplyTile kernel_of(const LaneKernels& kernels, Kind kind) {
  const MultiplyTile all[] = {kernels.fp8, kernels.fp4, kernels.bf16, kernels.f32, kernels.exact};
  return all[static_cast<int>(kind)];
}

// Four rows of one format, and rows of x as the kernels take them.
struct Product {
  Kind kind;
  std::int64_t n;
  std::int64_t k;
  std::vector<std::uint8_t> codes;  // behind a byte, as rows may be at any address
  std::vector<std::uint8_t> scales;
  std::vector<float> x;
  std::vector<double> weights{};  // [row][k], as x's columns are counted

  std::int64_t row_bytes() const {
    const std::int64_t halves[] = {2, 1, 4, 8, 8};
    return k * halves[static_cast<int>(kind)] / 2;
  }

  std::vector<float> sums(const LaneKernels& kernels) const {
    WeightTile tile{};
    for (int r = 0; r < kTileRows; ++r) {
      tile.codes[r] = codes.data() + 1 + r * row_bytes();
      tile.scales[r] = scales.data() + r * (k / kGroup);
    }
    std::vector<float> running(static_cast<std::size_t>(n * kTileRows * kLaneCount));
    std::vector<float> sums(static_cast<std::size_t>(n * kTileRows));
    kernel_of(kernels, kind)(tile, {x.data(), n, k}, running.data(), sums.data());
    return sums;
  }

  double exactly(std::int64_t i, int row, double& magnitude) const {
    double sum = 0;
    magnitude = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const double product =
          weights[static_cast<std::size_t>(row * k + j)] * x[static_cast<std::size_t>(i * k + j)];
      sum += product;
      magnitude += std::abs(product);
    }
    return sum;
  }
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::uint8_t byte(int low, int high) {
    return static_cast<std::uint8_t>(std::uniform_int_distribution<int>(low, high)(engine_));
  }

  // A code of any number, zeros of both signs and subnormal ones among them.
  std::uint8_t fp8() {
    const std::uint8_t code = byte(0, 255);
    return (code & 0x7F) == 0x7F ? std::uint8_t{0} : code;
  }

  float number(Kind kind) {
    const float value = normal_(engine_) * std::ldexp(1.0F, byte(0, 30) - 15);
    return kind == Kind::kF32 ? value : round_bf16(value);
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

template <class T>
void append(std::vector<std::uint8_t>& bytes, T value) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

// The next block of 32 weights of a row, with scales of 2^-27 to 2^23.
void append_block(Product& product, Random& random) {
  product.scales.push_back(random.byte(100, 150));
  const double scale = ue8m0(product.scales.back());
  double values[kGroup];
  for (int j = 0; j < kGroup; ++j) {
    if (product.kind == Kind::kFp8) {
      product.codes.push_back(random.fp8());
      values[j] = scale * kE4m3[product.codes.back()];
    } else if (product.kind == Kind::kFp4) {
      if (j % 2 == 0) {
        product.codes.push_back(random.byte(0, 255));
      }
      const int code = product.codes.back() >> (j % 2 * 4) & 15;
      values[j / 2 + j % 2 * kLaneCount] = scale * kE2m1[static_cast<std::size_t>(code)];
    } else {
      const float value = random.number(product.kind);
      values[j] = value;
      product.kind == Kind::kBf16 ? append(product.codes, to_bf16(value))
                                  : append(product.codes, value);
    }
  }
  product.weights.insert(product.weights.end(), values, values + kGroup);
}

Product any_product(Kind kind, std::int64_t n, std::int64_t k, Random& random) {
  Product product{kind, n, k, {0}, {}, {}};
  for (std::int64_t block = 0; block < kTileRows * k / kGroup; ++block) {
    append_block(product, random);
  }
  for (std::int64_t i = 0; i < n * k; ++i) {
    product.x.push_back(random.number(Kind::kBf16));
  }
  return product;
}

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("all instruction sets of this machine give the same bits, for any number of rows") {
  Random random(kSeed);
  for (const Kind kind : kKinds) {
    for (const std::int64_t k : {32, 64, 480, 512, 544, 1'600}) {
      for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 70}) {
        const Product product = any_product(kind, n, k, random);
        const std::vector<float> want = product.sums(kScalarLanes);
        for (const LaneKernels* row : lane_kernels()) {
          if (!row->is_available()) {
            continue;
          }
          CAPTURE(row->name);
          CAPTURE(static_cast<int>(kind));
          CAPTURE(k);
          CAPTURE(n);
          const std::vector<float> got = product.sums(*row);
          REQUIRE(same_bits(got.data(), want.data(), got.size()));
          for (std::int64_t i = 0; i < n; ++i) {
            Product alone = product;
            alone.n = 1;
            alone.x.assign(product.x.begin() + i * k, product.x.begin() + (i + 1) * k);
            REQUIRE(same_bits(alone.sums(*row).data(), got.data() + i * kTileRows, kTileRows));
          }
        }
      }
    }
  }
}

// Sixteen sums of k / 16 roundings each, and four more, and one of each product: below k / 16 + 5
// half units of what the products come to without their signs.
TEST_CASE("sums are those of the products, within the roundings of their additions") {
  Random random(kSeed + 1);
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const Product product = any_product(kind, 6, 1'024, random);
    const std::vector<float> sums = product.sums(best_lane_kernels());
    for (std::int64_t i = 0; i < product.n; ++i) {
      for (int r = 0; r < kTileRows; ++r) {
        double magnitude = 0;
        const double want = product.exactly(i, r, magnitude);
        const double got = sums[static_cast<std::size_t>(i * kTileRows + r)];
        CHECK(std::abs(got - want) <= (1'024.0 / 16 + 5) * 0x1p-24 * magnitude);
      }
    }
  }
}

TEST_CASE("rows are mixed with the same bits everywhere, added to what is kept of the mix before") {
  Random random(kSeed + 2);
  for (const std::int64_t d : {16, 96, 512}) {
    for (const std::int64_t n : {1, 3, 4, 9}) {
      constexpr std::int64_t kStride = 64;
      const std::int64_t count = 1 + random.byte(0, 63);
      std::vector<float> rows(static_cast<std::size_t>(count * d));
      std::vector<float> weights(static_cast<std::size_t>(n * kStride));
      std::vector<float> keep(static_cast<std::size_t>(n));
      std::vector<float> before(static_cast<std::size_t>(n * d));
      for (std::vector<float>* values : {&rows, &weights}) {
        std::generate(values->begin(), values->end(), [&] { return random.number(Kind::kBf16); });
      }
      for (std::vector<float>* values : {&keep, &before}) {
        std::generate(values->begin(), values->end(), [&] { return random.number(Kind::kF32); });
      }
      std::vector<float> want = before;
      for (std::int64_t i = 0; i < n * d; ++i) {
        float sum = 0;
        for (std::int64_t t = 0; t < count; ++t) {
          sum += weights[static_cast<std::size_t>(i / d * kStride + t)] *
                 rows[static_cast<std::size_t>(t * d + i % d)];
        }
        float& y = want[static_cast<std::size_t>(i)];
        y = y * keep[static_cast<std::size_t>(i / d)] + sum;
      }
      for (const LaneKernels* row : lane_kernels()) {
        if (row->is_available()) {
          CAPTURE(row->name);
          std::vector<float> got = before;
          row->mix({rows.data(), count, d, kStride}, weights.data(), keep.data(), n, got.data());
          REQUIRE(same_bits(got.data(), want.data(), got.size()));
        }
      }
    }
  }
}

TEST_CASE("many numbers are narrowed as one is, those that are none among them") {
  std::mt19937 random(kSeed + 3);
  std::vector<float> values{0.0F, -0.0F, INFINITY, -INFINITY, NAN, -NAN, 3.4e38F, 1e-45F};
  while (values.size() < 10'003) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
  std::vector<Bf16> narrowed(values.size());
  narrow(values.data(), std::ssize(values), narrowed.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    REQUIRE(narrowed[i] == to_bf16(values[i]));
  }
}

TEST_CASE("there is a row for any machine, and rows are found by name") {
  CHECK(lane_kernels().back()->is_available());
  CHECK(lane_kernels().back()->name == "scalar");
  CHECK(*find_lane_kernels("auto") == &best_lane_kernels());
  CHECK(*find_lane_kernels("scalar") == &kScalarLanes);
  const auto unknown = find_lane_kernels("sse9");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().code == Code::kMisconfigured);
  CHECK(unknown.error().message.find("has no sse9; choose one of auto") != std::string::npos);
  CHECK(unknown.error().message.find("scalar") != std::string::npos);
}

}  // namespace shoal::kernels::cpu
