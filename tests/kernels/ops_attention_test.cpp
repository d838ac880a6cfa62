// Sparse attention against the reference: holes, 10 blocks of 64, sinks, a row without entries; and
// every stored row format.
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"

namespace shoal::kernels::test {

namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kLength = 640;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kDim = 64;

// The fixture's entries in one stored format.
struct Lists {
  Lists(const Ops& ops, const Golden& golden, EntryFormat format) {
    const std::vector<std::uint8_t> valid = golden.bytes("valid");
    values = golden.bf16("kv");
    const std::int64_t row_bytes = format == EntryFormat::kBf16 ? 2 * kDim : window_row_bytes(kDim);
    stored.resize(static_cast<std::size_t>(kRows * kLength * row_bytes));
    if (format == EntryFormat::kWindow) {
      ops.pack_window(
          values.data(), kRows * kLength, kDim, row_addresses(stored, row_bytes).data());
    }
    const auto* base = reinterpret_cast<const std::byte*>(
        format == EntryFormat::kBf16 ? static_cast<const void*>(values.data()) : stored.data());
    for (std::int64_t t = 0; t < kRows * kLength; ++t) {
      entries.push_back(valid[static_cast<std::size_t>(t)] != 0
                            ? KvEntry{base + t * row_bytes, format}
                            : KvEntry{});
    }
  }

  std::vector<Bf16> values;
  std::vector<std::uint8_t> stored;
  std::vector<KvEntry> entries;
};

std::vector<Bf16> attend(const Ops& ops,
                         const Golden& golden,
                         const std::vector<KvEntry>& entries) {
  std::vector<Bf16> out(static_cast<std::size_t>(kRows * kHeads * kDim));
  ops.attention(golden.bf16("q").data(),
                entries.data(),
                kLength,
                golden.floats("sink").data(),
                0.125F,
                kRows,
                kHeads,
                kDim,
                out.data());
  return out;
}

}  // namespace

TEST_CASE("sparse attention agrees with the reference, rows as bf16 and as window rows") {
  const Golden golden("ops/attention");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    for (const EntryFormat format : {EntryFormat::kBf16, EntryFormat::kWindow}) {
      check_bf16(attend(*cpu.ops, golden, Lists(*cpu.ops, golden, format).entries),
                 golden.bf16("out"));
    }
  }
}

TEST_CASE("with exact sums sparse attention equals the reference bit for bit") {
  const Golden golden("ops/attention");
  const CpuUnderTest cpu(SumPrecision::kDouble);
  check_same(attend(*cpu.ops, golden, Lists(*cpu.ops, golden, EntryFormat::kBf16).entries),
             golden.bf16("out"));
}

TEST_CASE("a row without entries attends to nothing and gives zero") {
  const Golden golden("ops/attention");
  const CpuUnderTest cpu(SumPrecision::kSingle);
  const std::vector<Bf16> out = attend(*cpu.ops, golden, std::vector<KvEntry>(kRows * kLength));
  check_same(out, std::vector<Bf16>(out.size()));
}

TEST_CASE("a main entry weighs as its decoded values do") {
  const Golden golden("ops/compressor");
  const CpuUnderTest cpu(SumPrecision::kSingle);
  const std::vector<std::uint8_t> stored =
      join_rows(golden.bytes("ratio1.main.packed"), golden.bytes("ratio1.main.scales"), 9);
  const std::vector<Bf16> values = golden.bf16("ratio1.main.values");
  const std::vector<Bf16> q = Golden("ops/attention").bf16("q");
  const float sink = 0.25F;
  std::vector<KvEntry> packed;
  std::vector<KvEntry> plain;
  for (std::int64_t i = 0; i < 9; ++i) {
    packed.push_back({reinterpret_cast<const std::byte*>(stored.data()) + i * main_row_bytes(kDim),
                      EntryFormat::kMain});
    plain.push_back(
        {reinterpret_cast<const std::byte*>(values.data() + i * kDim), EntryFormat::kBf16});
  }
  std::vector<Bf16> from_packed(kDim);
  std::vector<Bf16> from_plain(kDim);
  cpu->attention(q.data(), packed.data(), 9, &sink, 0.125F, 1, 1, kDim, from_packed.data());
  cpu->attention(q.data(), plain.data(), 9, &sink, 0.125F, 1, 1, kDim, from_plain.data());
  check_same(from_packed, from_plain);
}

}  // namespace shoal::kernels::test
