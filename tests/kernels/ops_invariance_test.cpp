// A row's result never depends on the other rows of a call, on their number, or on the number of
// threads: bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <random>

#include "cpu_under_test.h"

namespace shoal::kernels::test {

namespace {

constexpr std::int64_t kRows =
    150;  // more than two strips of 64, and enough work to leave the calling thread
constexpr std::int64_t kDim = 160;
constexpr HcShape kShape{.copies = 4, .dim = kDim};
constexpr unsigned kSeed = 31;

class Random {
 public:
  std::vector<float> floats(std::int64_t count, float scale = 1.0F) {
    std::vector<float> out(static_cast<std::size_t>(count));
    for (float& x : out) {
      x = normal_(engine_) * scale;
    }
    return out;
  }

  std::vector<Bf16> bf16(std::int64_t count) {
    std::vector<Bf16> out;
    for (const float x : floats(count)) {
      out.push_back(to_bf16(x));
    }
    return out;
  }

  // Any byte whose code is a value in E4M3, E2M1 pairs and (as a scale) a moderate power of two.
  std::vector<std::uint8_t> codes(std::int64_t count) { return bytes(count, 0, 126); }

  std::vector<std::uint8_t> scales(std::int64_t count) { return bytes(count, 118, 126); }

 private:
  std::vector<std::uint8_t> bytes(std::int64_t count, int low, int high) {
    std::uniform_int_distribution<int> byte(low, high);
    std::vector<std::uint8_t> out(static_cast<std::size_t>(count));
    std::generate(out.begin(), out.end(), [&] { return static_cast<std::uint8_t>(byte(engine_)); });
    return out;
  }

  std::mt19937 engine_{kSeed};
  std::normal_distribution<float> normal_;
};

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Computes the results of rows first .. first + n - 1 as bytes.
using Rows = std::function<Bytes(const Ops& ops, std::int64_t first, std::int64_t n)>;

// All rows at once on one thread = on two and three threads = with any instruction set = one by one
// = in uneven pieces.
void check_invariant(const Rows& compute) {
  for (const SumPrecision precision : kPrecisions) {
    CAPTURE(precision);
    const CpuUnderTest one(precision, 1);
    const Bytes all = compute(*one.ops, 0, kRows);
    REQUIRE(!all.empty());
    for (const int threads : {2, 3}) {
      CHECK(compute(*CpuUnderTest(precision, threads).ops, 0, kRows) == all);
    }
    for (const cpu::LaneKernels* lanes : cpu::lane_kernels()) {
      if (lanes->is_available()) {
        CAPTURE(lanes->name);
        CHECK(compute(*CpuUnderTest(precision, 1, *lanes).ops, 0, kRows) == all);
      }
    }
    for (const std::int64_t piece : {1, 7, 64}) {
      Bytes joined;
      for (std::int64_t first = 0; first < kRows; first += piece) {
        const Bytes part = compute(*one.ops, first, std::min(piece, kRows - first));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      CHECK(joined == all);
    }
  }
}

Weight view(WeightFormat format,
            std::int64_t rows,
            std::int64_t cols,
            const void* values,
            const Bytes& scales = {}) {
  return {format,
          rows,
          cols,
          static_cast<const std::byte*>(values),
          scales.empty() ? nullptr : scales.data()};
}

template <class T>
std::vector<T> outputs(std::int64_t n, std::int64_t width) {
  return std::vector<T>(static_cast<std::size_t>(n * width));
}

}  // namespace

TEST_CASE("linears do not depend on batch or threads, quantised ones in either weight format") {
  CAPTURE(kSeed);
  Random random;
  constexpr std::int64_t kOut = 200;  // not a multiple of 16
  const std::vector<Bf16> x = random.bf16(kRows * kDim);
  const Bytes fp8 = random.codes(kOut * kDim);
  const Bytes fp8_scales = random.scales((kOut + 31) / 32 * (kDim / 32));
  const Bytes fp4 = random.codes(kOut * kDim / 2);
  const Bytes fp4_scales = random.scales(kOut * kDim / 32);
  const std::vector<Bf16> bf16 = random.bf16(kOut * kDim);
  const std::vector<float> f32 = random.floats(kOut * kDim);
  const Weight quantized[] = {view(WeightFormat::kFp8, kOut, kDim, fp8.data(), fp8_scales),
                              view(WeightFormat::kFp4, kOut, kDim, fp4.data(), fp4_scales)};
  const Weight plain[] = {quantized[0],
                          view(WeightFormat::kBf16, kOut, kDim, bf16.data()),
                          view(WeightFormat::kF32, kOut, kDim, f32.data())};
  const auto rows = [&](std::int64_t first, std::int64_t n) {
    return std::vector<Bf16>(x.begin() + first * kDim, x.begin() + (first + n) * kDim);
  };
  for (const Weight& w : quantized) {
    check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
      return bytes_of(quantized_linear(ops, w, rows(first, n)));
    });
  }
  for (const Weight& w : plain) {
    check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
      return bytes_of(plain_linear(ops, w, rows(first, n)));
    });
  }
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    return bytes_of(float_linear(ops, plain[1], rows(first, n)));
  });
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    auto scores = outputs<float>(n, kOut);
    ops.gate_scores(plain[1], x.data() + first * kDim, n, scores.data());
    return bytes_of(scores);
  });
}

TEST_CASE("norm and hyper-connections do not depend on batch or threads") {
  CAPTURE(kSeed);
  Random random;
  const std::vector<Bf16> h = random.bf16(kRows * 4 * kDim);
  const std::vector<Bf16> y = random.bf16(kRows * kDim);
  const std::vector<float> weight = random.floats(kDim);
  const std::vector<float> fn = random.floats(24 * 4 * kDim, 0.05F);
  const std::vector<float> base = random.floats(24);
  const std::vector<float> scale = random.floats(3);
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    auto out = outputs<Bf16>(n, kDim);
    ops.rms_norm(y.data() + first * kDim, weight.data(), n, kDim, 1e-20F, out.data());
    return bytes_of(out);
  });
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    const Bf16* rows = h.data() + first * 4 * kDim;
    auto mixes = outputs<float>(n, 24);
    auto collapsed = outputs<Bf16>(n, kDim);
    auto expanded = outputs<Bf16>(n, 4 * kDim);
    auto mean = outputs<Bf16>(n, kDim);
    float* post = mixes.data() + n * 4;
    float* comb = mixes.data() + n * 8;
    ops.hc_mixes(
        rows, {fn.data(), base.data(), scale.data()}, kShape, n, {mixes.data(), post, comb});
    ops.hc_collapse(rows, mixes.data(), kShape, n, collapsed.data());
    ops.hc_expand(y.data() + first * kDim, rows, post, comb, kShape, n, expanded.data());
    ops.hc_mean(rows, kShape, n, mean.data());
    // Row by row, so that pieces join.
    Bytes bytes;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto append = [&](const void* p, std::size_t size) {
        bytes.insert(bytes.end(),
                     static_cast<const std::uint8_t*>(p),
                     static_cast<const std::uint8_t*>(p) + size);
      };
      append(mixes.data() + i * 4, 16);
      append(post + i * 4, 16);
      append(comb + i * 16, 64);
      append(collapsed.data() + i * kDim, 2 * kDim);
      append(expanded.data() + i * 4 * kDim, 8 * kDim);
      append(mean.data() + i * kDim, 2 * kDim);
    }
    return bytes;
  });
}

TEST_CASE("rotation and cache rows do not depend on batch or threads") {
  CAPTURE(kSeed);
  Random random;
  constexpr std::int64_t kHeads = 4;
  const std::vector<Bf16> x = random.bf16(kRows * kHeads * kDim);
  std::vector<std::int64_t> positions(kRows);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int64_t>(i * i * 31);
  }
  std::vector<float> freqs(16);
  for (std::size_t i = 0; i < freqs.size(); ++i) {
    freqs[i] = std::pow(0.7F, static_cast<float>(i));
  }
  const std::vector<float> kv = random.floats(kRows * 2 * kDim);
  const std::vector<float> score = random.floats(kRows * 2 * kDim);
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    const std::vector<Bf16> rows(x.begin() + first * kHeads * kDim,
                                 x.begin() + (first + n) * kHeads * kDim);
    std::vector<Bf16> rotated = rows;
    ops.rope(rotated.data(), positions.data() + first, freqs, n, kHeads, kDim, true);
    ops.qdq_index(rotated.data(), n * kHeads, kDim);
    return bytes_of(rotated);
  });
  using Pack = void (Ops::*)(const Bf16*, std::int64_t, std::int64_t, std::byte* const*) const;
  const std::pair<Pack, std::int64_t> packs[] = {{&Ops::pack_window, window_row_bytes(kDim)},
                                                 {&Ops::pack_main, main_row_bytes(kDim)},
                                                 {&Ops::pack_index, index_row_bytes(kDim)}};
  for (const auto& [pack, row_bytes] : packs) {
    check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
      Bytes stored(static_cast<std::size_t>(n * row_bytes));
      (ops.*pack)(x.data() + first * kDim, n, kDim, row_addresses(stored, row_bytes).data());
      return stored;
    });
  }
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    auto out = outputs<Bf16>(n, kDim);
    ops.pool_pairs(
        kv.data() + first * 2 * kDim, score.data() + first * 2 * kDim, n, kDim, out.data());
    return bytes_of(out);
  });
}

TEST_CASE("attention does not depend on batch or threads, nor on where holes lie in a block") {
  CAPTURE(kSeed);
  Random random;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kHeadDim = 96;
  constexpr std::int64_t kLength = 256;
  const std::vector<Bf16> q = random.bf16(kRows * kHeads * kHeadDim);
  const std::vector<Bf16> kv = random.bf16(400 * kHeadDim);
  const std::vector<float> sink = random.floats(kHeads);
  std::vector<KvEntry> lists(static_cast<std::size_t>(kRows * kLength));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (i * 2654435761u % 5 != 0) {
      lists[i] = {reinterpret_cast<const std::byte*>(kv.data() + i * 7919 % 400 * kHeadDim),
                  EntryFormat::kBf16};
    }
  }
  const auto attend = [&](const Ops& ops, const KvEntry* list, std::int64_t first, std::int64_t n) {
    auto out = outputs<Bf16>(n, kHeads * kHeadDim);
    ops.attention(q.data() + first * kHeads * kHeadDim,
                  list + first * kLength,
                  kLength,
                  sink.data(),
                  0.1F,
                  n,
                  kHeads,
                  kHeadDim,
                  out.data());
    return bytes_of(out);
  };
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    return attend(ops, lists.data(), first, n);
  });

  std::vector<KvEntry> moved = lists;
  for (std::size_t block = 0; block < moved.size(); block += 64) {
    std::stable_partition(moved.begin() + static_cast<std::ptrdiff_t>(block),
                          moved.begin() + static_cast<std::ptrdiff_t>(block + 64),
                          [](const KvEntry& e) { return e.format == EntryFormat::kNone; });
  }
  const CpuUnderTest cpu(SumPrecision::kSingle);
  CHECK(attend(*cpu.ops, moved.data(), 0, kRows) == attend(*cpu.ops, lists.data(), 0, kRows));
}

TEST_CASE("one row of attention is the same on any number of threads") {
  Random random;
  constexpr std::int64_t kHeads = 8;
  constexpr std::int64_t kHeadDim = 512;
  const std::vector<Bf16> q = random.bf16(kHeads * kHeadDim);
  const std::vector<Bf16> kv = random.bf16(640 * kHeadDim);
  const std::vector<float> sink = random.floats(kHeads);
  std::vector<KvEntry> list;
  for (std::int64_t t = 0; t < 640; ++t) {
    list.push_back(
        {reinterpret_cast<const std::byte*>(kv.data() + t * kHeadDim), EntryFormat::kBf16});
  }
  std::vector<Bytes> results;
  for (const int threads : {1, 2, 3}) {
    const CpuUnderTest cpu(SumPrecision::kSingle, threads);
    auto out = outputs<Bf16>(kHeads, kHeadDim);
    cpu->attention(q.data(), list.data(), 640, sink.data(), 0.05F, 1, kHeads, kHeadDim, out.data());
    results.push_back(bytes_of(out));
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE(
    "index scores do not depend on threads or on how entries are cut into ranges and blocks") {
  CAPTURE(kSeed);
  Random random;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kKeyDim = 64;
  constexpr std::int64_t kEntries = 5000;
  const std::vector<Bf16> iq = random.bf16(kHeads * kKeyDim);
  const std::vector<Bf16> w = random.bf16(kHeads);
  Bytes stored = random.codes(kEntries * index_row_bytes(kKeyDim));
  const auto blocks_of = [&](std::int64_t per_block) {
    std::vector<const std::byte*> blocks;
    for (const std::byte* row : row_addresses(stored, per_block * index_row_bytes(kKeyDim))) {
      blocks.push_back(row);
    }
    return blocks;
  };
  const std::vector<const std::byte*> large = blocks_of(kEntries);
  const std::vector<const std::byte*> small = blocks_of(8);
  std::vector<EntryRange> pieces;
  for (std::int64_t first = 0; first < kEntries; first += 13) {
    pieces.push_back({first, std::min<std::int64_t>(13, kEntries - first)});
  }
  const EntryRange whole{0, kEntries};
  for (const SumPrecision precision : kPrecisions) {
    auto want = outputs<float>(kEntries, 1);
    CpuUnderTest(precision)->index_scores(
        iq.data(), w.data(), kHeads, {large, kEntries, kKeyDim}, {&whole, 1}, want.data());
    for (const int threads : {1, 2}) {
      auto got = outputs<float>(kEntries, 1);
      CpuUnderTest(precision, threads)
          ->index_scores(iq.data(), w.data(), kHeads, {small, 8, kKeyDim}, pieces, got.data());
      CHECK(bytes_of(got) == bytes_of(want));
    }
  }
}

TEST_CASE("routing, activation and combine do not depend on batch or threads") {
  CAPTURE(kSeed);
  Random random;
  constexpr std::int64_t kExperts = 16;
  constexpr int kTop = 3;
  const std::vector<float> scores = random.floats(kRows * kExperts);
  const std::vector<float> bias = random.floats(kExperts);
  const std::vector<const float*> biases(kRows, bias.data());
  const std::vector<Bf16> g = random.bf16(kRows * kDim);
  const std::vector<Bf16> u = random.bf16(kRows * kDim);
  const std::vector<Bf16> results = random.bf16(kRows * kTop * kDim);
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    auto experts = outputs<std::int32_t>(n, kTop);
    auto weights = outputs<float>(n, kTop);
    ops.route(scores.data() + first * kExperts,
              biases.data(),
              {kExperts, kTop, 1.5F},
              n,
              experts.data(),
              weights.data());
    auto t = outputs<Bf16>(n, kDim);
    auto first_weight = outputs<float>(n, 1);
    for (std::size_t i = 0; i < first_weight.size(); ++i) {
      first_weight[i] = weights[i * kTop];
    }
    ops.swiglu(g.data() + first * kDim,
               u.data() + first * kDim,
               first_weight.data(),
               1.0F,
               n,
               kDim,
               t.data());
    auto y = outputs<Bf16>(n, kDim);
    ops.combine(
        results.data() + first * kTop * kDim, experts.data(), t.data(), n, kTop, kDim, y.data());
    return bytes_of(y);
  });
}

TEST_CASE("engram does not depend on batch or threads") {
  CAPTURE(kSeed);
  Random random;
  constexpr std::int64_t kTableRows = 1000;
  const Bytes codes = random.codes(kTableRows * kDim);
  const Bytes scales = random.scales(kTableRows * kDim / 32);
  const std::vector<Bf16> h = random.bf16(kRows * 4 * kDim);
  const std::vector<float> weight = random.floats(4 * kDim);
  std::vector<std::int64_t> rows(kRows * 5);
  std::vector<std::uint8_t> open(kRows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::int64_t>(i * 7919 % kTableRows);
    open[i / 5] = i % 11 == 0 ? 0 : 1;
  }
  check_invariant([&](const Ops& ops, std::int64_t first, std::int64_t n) {
    auto kv = outputs<Bf16>(n, 5 * kDim);
    ops.engram_lookup(
        {codes.data(), scales.data(), kTableRows, kDim}, rows.data() + first * 5, n, 5, kv.data());
    std::vector<Bf16> stream(h.begin() + first * 4 * kDim, h.begin() + (first + n) * 4 * kDim);
    ops.engram_update(
        stream.data(), kv.data(), weight.data(), open.data() + first, kShape, n, nullptr);
    return bytes_of(stream);
  });
}

}  // namespace shoal::kernels::test
