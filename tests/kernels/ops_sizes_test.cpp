// Sizes only real models reach: 384 experts, Engram tables beyond 2^31 bytes, a million index keys.
// On generated or sparse data.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <sys/mman.h>

#include "cpu_under_test.h"
#include "kernels/top_k.h"

namespace shoal::kernels::test {

namespace {

constexpr unsigned kSeed = 5;

// Address space without memory behind it: pages appear where they are written.
class SparseBytes {
 public:
  explicit SparseBytes(std::size_t size) : size_(size) {
    void* p = mmap(
        nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(p != MAP_FAILED);
    data_ = static_cast<std::uint8_t*>(p);
  }

  ~SparseBytes() { munmap(data_, size_); }

  SparseBytes(const SparseBytes&) = delete;
  SparseBytes& operator=(const SparseBytes&) = delete;

  std::uint8_t* data() { return data_; }

 private:
  std::size_t size_;
  std::uint8_t* data_ = nullptr;
};

std::vector<float> normal_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

std::vector<Bf16> normal_bf16(std::size_t count, unsigned seed) {
  std::vector<Bf16> out;
  for (const float x : normal_floats(count, seed)) {
    out.push_back(to_bf16(x));
  }
  return out;
}

}  // namespace

TEST_CASE("384 experts, top 6: gate and routing equal a plain reference") {
  CAPTURE(kSeed);
  constexpr std::int64_t kExperts = 384;
  constexpr std::int64_t kDim = 512;
  constexpr std::int64_t kRows = 20;
  const std::vector<Bf16> w = normal_bf16(kExperts * kDim, kSeed);
  const std::vector<Bf16> x = normal_bf16(kRows * kDim, kSeed + 1);
  std::vector<float> bias = normal_floats(kExperts, kSeed + 2);
  const std::vector<const float*> biases(kRows, bias.data());
  const Weight gate{
      WeightFormat::kBf16, kExperts, kDim, reinterpret_cast<const std::byte*>(w.data()), nullptr};
  const CpuUnderTest cpu(SumPrecision::kDouble, 2);
  std::vector<float> scores(kRows * kExperts);
  std::vector<std::int32_t> experts(kRows * 6);
  std::vector<float> weights(kRows * 6);
  cpu->gate_scores(gate, x.data(), kRows, scores.data());
  cpu->route(
      scores.data(), biases.data(), {kExperts, 6, 1.5F}, kRows, experts.data(), weights.data());

  for (std::size_t i = 0; i < kRows; ++i) {
    std::vector<float> row(kExperts);
    for (std::size_t e = 0; e < kExperts; ++e) {
      double logit = 0;
      for (std::size_t k = 0; k < kDim; ++k) {
        logit += static_cast<double>(to_float(x[i * kDim + k])) *
                 static_cast<double>(to_float(w[e * kDim + k]));
      }
      row[e] = static_cast<float>(std::sqrt(std::log1p(std::exp(logit))));
      CHECK(scores[i * kExperts + e] == doctest::Approx(row[e]).epsilon(1e-6));
    }
    std::vector<std::int32_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      const float* s = scores.data() + i * kExperts;
      return s[a] + bias[static_cast<std::size_t>(a)] > s[b] + bias[static_cast<std::size_t>(b)];
    });
    double total = 0;
    for (std::size_t s = 0; s < 6; ++s) {
      CHECK(experts[i * 6 + s] == order[s]);
      total += static_cast<double>(weights[i * 6 + s]);
    }
    CHECK(total == doctest::Approx(1.5));
  }
}

TEST_CASE("engram rows beyond 2^31 and 2^32 bytes of a table are found") {
  constexpr std::int64_t kDim = 256;
  constexpr std::int64_t kTableRows = 20'000'000;  // 5.1 GB of codes, 160 MB of scales
  SparseBytes codes(static_cast<std::size_t>(kTableRows * kDim));
  SparseBytes scales(static_cast<std::size_t>(kTableRows * kDim / 32));
  const std::vector<std::int64_t> rows = {
      0, (std::int64_t{1} << 31) / kDim + 1, (std::int64_t{1} << 32) / kDim + 1, kTableRows - 1};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memset(
        codes.data() + rows[i] * kDim, 0x38 + static_cast<int>(i), kDim);  // 1.0, 1.125, ...
    std::memset(scales.data() + rows[i] * (kDim / 32), 128, kDim / 32);    // times 2
  }
  const CpuUnderTest cpu(SumPrecision::kSingle);
  std::vector<Bf16> y(rows.size() * kDim);
  cpu->engram_lookup({codes.data(), scales.data(), kTableRows, kDim}, rows.data(), 2, 2, y.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    REQUIRE(to_float(y[i]) == 2.0F + 0.25F * static_cast<float>(i / kDim));
  }
}

TEST_CASE("a million index keys are scored and the best lists found") {
  constexpr std::int64_t kEntries = 1'000'000;
  constexpr std::int64_t kPerBlock = 128;
  constexpr std::int64_t kDim = 128;
  constexpr std::int64_t kRowBytes = index_row_bytes(kDim);
  // Three different blocks, repeated: keys of all zeros, all ones, all sixes.
  std::vector<std::uint8_t> kinds(3 * kPerBlock * kRowBytes, 127);
  for (std::int64_t kind = 0; kind < 3; ++kind) {
    constexpr std::uint8_t kCodes[] = {0x00, 0x22, 0x77};
    for (std::int64_t e = 0; e < kPerBlock; ++e) {
      std::memset(kinds.data() + (kind * kPerBlock + e) * kRowBytes, kCodes[kind], kDim / 2);
    }
  }
  const auto* base = reinterpret_cast<const std::byte*>(kinds.data());
  std::vector<const std::byte*> blocks((kEntries + kPerBlock - 1) / kPerBlock, base);
  blocks[7] = base + 2 * kPerBlock * kRowBytes;
  blocks[7000] = base + kPerBlock * kRowBytes;
  const std::vector<Bf16> iq(2 * kDim, to_bf16(1.0F));
  const std::vector<Bf16> w = {to_bf16(1.0F), to_bf16(0.5F)};
  const CpuUnderTest cpu(SumPrecision::kSingle, 2);
  std::vector<float> scores(kEntries);
  const EntryRange all{0, kEntries};
  cpu->index_scores(iq.data(), w.data(), 2, {blocks, kPerBlock, kDim}, {&all, 1}, scores.data());
  CHECK(scores[7 * kPerBlock] == 1.5F * 6 * kDim);
  CHECK(scores[7000 * kPerBlock + 127] == 1.5F * kDim);
  CHECK(scores[kEntries - 1] == 0.0F);

  std::vector<std::int64_t> want(384);
  std::iota(want.begin(), want.begin() + 128, 0);  // zeros tie: the lowest positions fill up
  std::iota(want.begin() + 128, want.begin() + 256, 7 * kPerBlock);
  std::iota(want.begin() + 256, want.end(), 7000 * kPerBlock);
  CHECK(select_top(scores, 384) == want);

  const std::vector<std::int64_t> candidates = candidate_blocks(scores, kEntries, 2048, 8);
  std::vector<float> few(2048 * 8);
  const std::vector<EntryRange> ranges = candidate_ranges(candidates, kEntries, 8);
  cpu->index_scores(iq.data(), w.data(), 2, {blocks, kPerBlock, kDim}, ranges, few.data());
  CHECK(select_top(few, ranges, 384) == want);
}

}  // namespace shoal::kernels::test
