// Compressor latents, main entries and index keys against the reference; stored bytes exactly from
// the recorded latent.
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"
#include "kernels/cpu/decode.h"

namespace shoal::kernels::test {

namespace {

// What one fixture prefix needs: layer, ratio and the compressed rotation table.
struct Source {
  std::string prefix;
  std::string layer;
  std::int64_t ratio = 1;
};

const Source kSources[] = {{"ratio2.", "layers.2.attn.", 2}, {"ratio1.", "layers.6.attn.", 1}};

std::vector<std::int64_t> entry_positions(std::int64_t count, std::int64_t ratio) {
  std::vector<std::int64_t> positions;
  for (std::int64_t j = 0; j < count; ++j) {
    positions.push_back(j * ratio);
  }
  return positions;
}

std::vector<Bf16> rotated(const Ops& ops,
                          std::vector<Bf16> x,
                          std::int64_t count,
                          std::int64_t ratio) {
  const std::vector<float> freqs = Golden("ops/rope").floats("tiny.compressed.freqs");
  const std::vector<std::int64_t> positions = entry_positions(count, ratio);
  ops.rope(x.data(),
           positions.data(),
           freqs,
           count,
           1,
           static_cast<std::int64_t>(x.size()) / count,
           false);
  return x;
}

std::vector<Bf16> pooled_pairs(const Ops& ops, const Golden& golden, const Source& source) {
  const std::vector<Bf16> x = golden.bf16(source.prefix + "x");
  const std::vector<float> kv =
      float_linear(ops, tiny_checkpoint().weight(source.layer + "compressor.wkv.weight"), x);
  const std::vector<float> score =
      float_linear(ops, tiny_checkpoint().weight(source.layer + "compressor.wgate.weight"), x);
  check_fp32(kv, golden.floats("ratio2.kv"));
  check_fp32(score, golden.floats("ratio2.score"));
  std::vector<Bf16> latent(golden.bf16(source.prefix + "latent").size());
  ops.pool_pairs(
      kv.data(), score.data(), static_cast<std::int64_t>(latent.size()) / 64, 64, latent.data());
  return latent;
}

}  // namespace

TEST_CASE("compressor latents agree with the reference at ratio 2 and 1") {
  const Golden golden("ops/compressor");
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    for (const Source& source : kSources) {
      const std::vector<Bf16> raw =
          source.ratio == 2
              ? pooled_pairs(*cpu.ops, golden, source)
              : plain_linear(*cpu.ops,
                             tiny_checkpoint().weight(source.layer + "compressor.wkv.weight"),
                             golden.bf16(source.prefix + "x"));
      const std::vector<float> weight =
          tiny_checkpoint().floats(source.layer + "compressor.norm.weight");
      check_bf16(norm(*cpu.ops, weight, raw), golden.bf16(source.prefix + "latent"));
    }
  }
}

TEST_CASE("main entries are stored exactly as the reference stores them") {
  const Golden golden("ops/compressor");
  const CpuUnderTest cpu(SumPrecision::kDouble);
  for (const Source& source : kSources) {
    const std::int64_t n = golden.rows(source.prefix + "latent");
    const std::vector<Bf16> x =
        rotated(*cpu.ops, golden.bf16(source.prefix + "latent"), n, source.ratio);
    std::vector<std::uint8_t> stored(static_cast<std::size_t>(n * main_row_bytes(64)));
    cpu->pack_main(x.data(), n, 64, row_addresses(stored, main_row_bytes(64)).data());
    check_same(stored,
               join_rows(golden.bytes(source.prefix + "main.packed"),
                         golden.bytes(source.prefix + "main.scales"),
                         static_cast<std::size_t>(n)));
    std::vector<float> values(x.size());
    for (std::int64_t i = 0; i < n; ++i) {
      cpu::decode_main_row(
          reinterpret_cast<const std::byte*>(stored.data()) + i * main_row_bytes(64),
          64,
          values.data() + i * 64);
    }
    check_same(values, golden.floats(source.prefix + "main.values"));
  }
}

TEST_CASE("index keys are stored exactly as the reference stores them") {
  const Golden golden("ops/compressor");
  const CpuUnderTest cpu(SumPrecision::kDouble);
  for (const Source& source : kSources) {
    const std::int64_t n = golden.rows(source.prefix + "latent");
    const std::vector<Bf16> key =
        plain_linear(*cpu.ops,
                     tiny_checkpoint().weight(source.layer + "indexer.wk.weight"),
                     golden.bf16(source.prefix + "latent"));
    std::vector<Bf16> x = rotated(
        *cpu.ops,
        norm(*cpu.ops, tiny_checkpoint().floats(source.layer + "indexer.k_norm.weight"), key),
        n,
        source.ratio);
    std::vector<std::uint8_t> stored(static_cast<std::size_t>(n * index_row_bytes(64)));
    cpu->pack_index(x.data(), n, 64, row_addresses(stored, index_row_bytes(64)).data());
    check_same(stored,
               join_rows(golden.bytes(source.prefix + "key.packed"),
                         golden.bytes(source.prefix + "key.scales"),
                         static_cast<std::size_t>(n)));
    cpu->qdq_index(x.data(), n, 64);
    check_same(x, golden.bf16(source.prefix + "key.values"));
  }
}

TEST_CASE("window rows are stored as codes then scales") {
  const Golden golden("ops/formats");
  const CpuUnderTest cpu(SumPrecision::kSingle);
  const std::int64_t n = golden.rows("q.in");
  std::vector<std::uint8_t> stored(static_cast<std::size_t>(n * window_row_bytes(64)));
  cpu->pack_window(
      golden.bf16("q.in").data(), n, 64, row_addresses(stored, window_row_bytes(64)).data());
  check_same(
      stored,
      join_rows(golden.bytes("q8.codes"), golden.bytes("q8.scales"), static_cast<std::size_t>(n)));
}

}  // namespace shoal::kernels::test
