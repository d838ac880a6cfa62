// Index queries, head weights, scores, candidates and lists against the reference.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

#include "cpu_under_test.h"
#include "golden.h"
#include "kernels/top_k.h"

namespace shoal::kernels::test {

namespace {

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kDim = 64;
constexpr float kInvisible = -std::numeric_limits<float>::infinity();

struct PackedKeys {
  PackedKeys(const Ops& ops, const std::vector<Bf16>& keys, std::int64_t per_block)
      : count(static_cast<std::int64_t>(keys.size()) / kDim),
        bytes(static_cast<std::size_t>(count * index_row_bytes(kDim))) {
    ops.pack_index(keys.data(), count, kDim, row_addresses(bytes, index_row_bytes(kDim)).data());
    for (std::int64_t first = 0; first < count; first += per_block) {
      blocks.push_back(reinterpret_cast<const std::byte*>(bytes.data()) +
                       first * index_row_bytes(kDim));
    }
    view = {blocks, per_block, kDim};
  }

  std::int64_t count;
  std::vector<std::uint8_t> bytes;
  std::vector<const std::byte*> blocks;
  IndexKeys view;
};

// Scores of one row; what is beyond `visible` is -inf.
std::vector<float> scores_of(const Ops& ops,
                             const Golden& golden,
                             const std::string& p,
                             std::int64_t row,
                             std::int64_t visible,
                             const PackedKeys& keys) {
  std::vector<float> scores(static_cast<std::size_t>(keys.count), kInvisible);
  const EntryRange range{0, visible};
  ops.index_scores(golden.bf16(p + "query").data() + row * kHeads * kDim,
                   golden.bf16(p + "weights").data() + row * kHeads,
                   kHeads,
                   keys.view,
                   {&range, 1},
                   scores.data());
  return scores;
}

std::vector<std::int64_t> padded(std::vector<std::int64_t> list, std::size_t size) {
  list.resize(size, -1);
  return list;
}

// A row is left out only where the reference itself cannot tell the k-th from the next score; an
// exact tie is settled by position.
bool is_safe(float margin) {
  return margin > 1e-5F || margin == 0.0F;
}

}  // namespace

TEST_CASE("index queries and head weights agree with the reference") {
  const Golden golden("ops/indexer");
  const std::vector<float> freqs = Golden("ops/rope").floats("tiny.compressed.freqs");
  std::vector<std::int64_t> positions(33);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int64_t>(i);
  }
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    for (const char* layer : {"2", "4", "6", "8"}) {
      CAPTURE(layer);
      const std::string p = std::string("layers.") + layer + ".";
      const std::string w = p + "attn.indexer.";
      std::vector<Bf16> q =
          quantized_linear(*cpu.ops,
                           tiny_checkpoint().weight(w + "wq_b.weight", w + "wq_b.scale"),
                           golden.bf16(p + "qr"));
      cpu->rope(q.data(), positions.data(), freqs, 33, kHeads, kDim, false);
      cpu->qdq_index(q.data(), 33 * kHeads, kDim);
      check_quantized(q, golden.bf16(p + "query"));
      std::vector<Bf16> weights = plain_linear(
          *cpu.ops, tiny_checkpoint().weight(w + "weights_proj.weight"), golden.bf16(p + "x"));
      cpu->scale_rows(weights.data(), 33 * kHeads, static_cast<float>(1.0 / std::sqrt(64.0 * 4.0)));
      check_bf16(weights, golden.bf16(p + "weights"));
    }
  }
}

TEST_CASE("index scores, candidates and lists equal the reference's") {
  const Golden golden("ops/indexer");
  const std::size_t n = 33;
  for (const SumPrecision precision : kPrecisions) {
    const CpuUnderTest cpu(precision);
    std::vector<std::vector<std::int64_t>> blocks(n);  // candidates of layer 6, used by layer 8
    for (const std::string p : {"layers.2.", "layers.4.", "layers.6.", "layers.8."}) {
      CAPTURE(p);
      const PackedKeys keys(*cpu.ops, golden.bf16(p + "keys"), 7);
      const std::vector<std::int64_t> visible = golden.ints(p + "visible");
      const std::vector<std::int64_t> lists = golden.ints(p + "topk");
      const std::vector<float> margin = golden.floats(p + "margin");
      std::vector<float> all;
      for (std::size_t i = 0; i < n; ++i) {
        CAPTURE(i);
        const std::vector<float> scores =
            scores_of(*cpu.ops, golden, p, static_cast<std::int64_t>(i), visible[i], keys);
        all.insert(all.end(), scores.begin(), scores.end());
        std::vector<std::int64_t> list = select_top(scores, 8);
        if (p == "layers.6.") {
          blocks[i] = candidate_blocks(scores, visible[i], 3, 4);
          const std::vector<std::uint8_t> mask = golden.bytes(p + "candidates");
          for (std::int64_t j = 0; j < visible[i]; ++j) {
            const bool kept =
                std::find(blocks[i].begin(), blocks[i].end(), j / 4) != blocks[i].end();
            CHECK(kept ==
                  (mask[i * static_cast<std::size_t>(keys.count) + static_cast<std::size_t>(j)] !=
                   0));
          }
        } else if (p == "layers.8.") {
          const std::vector<EntryRange> ranges = candidate_ranges(blocks[i], visible[i], 4);
          std::vector<float> packed(12);
          cpu->index_scores(golden.bf16(p + "query").data() + i * kHeads * kDim,
                            golden.bf16(p + "weights").data() + i * kHeads,
                            kHeads,
                            keys.view,
                            ranges,
                            packed.data());
          std::int64_t total = 0;
          for (const EntryRange& range : ranges) {
            total += range.count;
          }
          list = select_top(std::span(packed).first(static_cast<std::size_t>(total)), ranges, 8);
        }
        if (is_safe(margin[i])) {
          CHECK(padded(list, 8) ==
                std::vector<std::int64_t>(lists.begin() + static_cast<std::ptrdiff_t>(i * 8),
                                          lists.begin() + static_cast<std::ptrdiff_t>(i * 8 + 8)));
        }
      }
      check_fp32(all, golden.floats(p + "score"));
    }
  }
}

}  // namespace shoal::kernels::test
