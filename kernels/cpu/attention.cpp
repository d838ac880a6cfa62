// Sparse attention over a list of cached rows: one KV head (K = V), online softmax in blocks of 64
// list entries (model spec 3.6).
#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/scalar_math.h"

namespace shoal::kernels::cpu {

namespace {

constexpr std::int64_t kBlock = 64;

// What the softmax of one head has seen so far.
struct Running {
  float top = -1e30F;
  float denominator = 0;
};

// The entries of one block that are not holes, as floats [count][d].
struct Block {
  float* rows = nullptr;
  std::int64_t count = 0;
};

void decode_entry(const KvEntry& entry, std::int64_t d, float* y) {
  switch (entry.format) {
    case EntryFormat::kBf16:
      widen(reinterpret_cast<const Bf16*>(entry.row), d, y);
      return;
    case EntryFormat::kMain:
      decode_main_row(entry.row, d, y);
      return;
    case EntryFormat::kWindow: {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(entry.row);
      decode_fp8_row(codes, codes + d, d, y);
      return;
    }
    case EntryFormat::kNone:
      return;
  }
}

// A hole adds nothing to any sum, so leaving it out changes no bit.
void decode_block(const KvEntry* list, std::int64_t length, std::int64_t d, Block& block) {
  block.count = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    if (list[t].format != EntryFormat::kNone) {
      decode_entry(list[t], d, block.rows + block.count++ * d);
    }
  }
}

// p = exp(s - top), vectorised.
[[gnu::target_clones("avx2", "default")]] void exponentials(const float* s,
                                                            std::int64_t n,
                                                            float top,
                                                            float* p) {
  for (std::int64_t t = 0; t < n; ++t) {
    p[t] = exp_float(s[t] - top);
  }
}

// Heads of one row: queries and numerators [count][d], and scratch.
struct RowHeads {
  std::int64_t count = 0;
  std::int64_t d = 0;
  float* queries = nullptr;
  float* numerators = nullptr;
  float* scores = nullptr;  // [count][kBlock]
  std::vector<Running>& states;
};

// scores = scale * (queries times the block's entries).
void score_block(const LaneKernels& lanes, const Block& block, float scale, const RowHeads& heads) {
  thread_local std::vector<float> buffer;
  float* sums = reserve(buffer, heads.count * kTileRows * (kLaneCount + 1));
  for (std::int64_t first = 0; first < block.count; first += kTileRows) {
    WeightTile tile{};
    for (int r = 0; r < kTileRows; ++r) {
      const std::int64_t entry = std::min(first + r, block.count - 1);
      tile.codes[r] = reinterpret_cast<const std::uint8_t*>(block.rows + entry * heads.d);
    }
    lanes.exact(tile, {heads.queries, heads.count, heads.d}, sums + heads.count * kTileRows, sums);
    const std::int64_t entries = std::min<std::int64_t>(kTileRows, block.count - first);
    for (std::int64_t h = 0; h < heads.count; ++h) {
      for (std::int64_t r = 0; r < entries; ++r) {
        heads.scores[h * kBlock + first + r] = sums[h * kTileRows + r] * scale;
      }
    }
  }
}

void score_block_exactly(const Block& block, float scale, const RowHeads& heads) {
  for (std::int64_t h = 0; h < heads.count; ++h) {
    for (std::int64_t t = 0; t < block.count; ++t) {
      heads.scores[h * kBlock + t] = dot(SumPrecision::kDouble,
                                         heads.queries + h * heads.d,
                                         block.rows + t * heads.d,
                                         heads.d) *
                                     scale;
    }
  }
}

// Scores of a head become probabilities, which its denominator sums as they are and the numerator
// will use rounded to bf16. How much of what it has so far stays is returned.
float weigh_block(std::int64_t count, SumPrecision precision, float* p, Running& state) {
  const float top = std::max(state.top, *std::max_element(p, p + count));
  const float shrink = exp_float(state.top - top);
  exponentials(p, count, top, p);
  state.denominator = state.denominator * shrink + sum(precision, p, count);
  state.top = top;
  for (std::int64_t t = 0; t < count; ++t) {
    p[t] = round_bf16(p[t]);
  }
  return shrink;
}

void mix_block_exactly(const Block& block, const float* keep, const RowHeads& heads) {
  thread_local std::vector<float> buffer;
  float* update = reserve(buffer, heads.d);
  for (std::int64_t h = 0; h < heads.count; ++h) {
    weighted_sum(SumPrecision::kDouble,
                 heads.scores + h * kBlock,
                 1,
                 block.rows,
                 block.count,
                 heads.d,
                 update);
    float* numerator = heads.numerators + h * heads.d;
    for (std::int64_t j = 0; j < heads.d; ++j) {
      numerator[j] = numerator[j] * keep[h] + update[j];
    }
  }
}

// Folds one block into the heads. Queries, entries and rounded probabilities are bf16 numbers, so
// their products are exact.
void fold_block(const LaneKernels& lanes,
                SumPrecision precision,
                const Block& block,
                float scale,
                const RowHeads& heads) {
  const bool is_exact = precision == SumPrecision::kDouble;
  is_exact ? score_block_exactly(block, scale, heads) : score_block(lanes, block, scale, heads);
  thread_local std::vector<float> buffer;
  float* keep = reserve(buffer, heads.count);
  for (std::int64_t h = 0; h < heads.count; ++h) {
    keep[h] = weigh_block(block.count,
                          precision,
                          heads.scores + h * kBlock,
                          heads.states[static_cast<std::size_t>(h)]);
  }
  if (is_exact) {
    mix_block_exactly(block, keep, heads);
  } else {
    lanes.mix({block.rows, block.count, heads.d, kBlock},
              heads.scores,
              keep,
              heads.count,
              heads.numerators);
  }
}

struct Heads {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

}  // namespace

// Work items are (row, share of the heads): the entries are decoded once per item, so rows are not
// cut unless threads would idle.
void CpuOps::attention(const Bf16* q,
                       const KvEntry* lists,
                       std::int64_t length,
                       const float* sink,
                       float scale,
                       std::int64_t n,
                       std::int64_t heads,
                       std::int64_t d,
                       Bf16* o) const {
  const std::int64_t shares =
      n >= pool_.threads() ? 1 : std::min<std::int64_t>(pool_.threads(), heads);
  const auto attend = [&](std::int64_t row, Heads part) {
    thread_local std::vector<float> buffer;
    float* queries = reserve(buffer, (2 * part.count + kBlock) * d + part.count * kBlock);
    float* numerators = queries + part.count * d;
    Block block{numerators + part.count * d, 0};
    thread_local std::vector<Running> states;
    states.assign(static_cast<std::size_t>(part.count), Running{});
    const RowHeads own{part.count, d, queries, numerators, block.rows + kBlock * d, states};
    widen(q + (row * heads + part.first) * d, part.count * d, queries);
    std::fill_n(numerators, part.count * d, 0.0F);
    for (std::int64_t t = 0; t < length; t += kBlock) {
      decode_block(lists + row * length + t, std::min(kBlock, length - t), d, block);
      if (block.count > 0) {
        fold_block(lanes_, precision_, block, scale, own);
      }
    }
    for (std::int64_t h = 0; h < part.count; ++h) {
      const Running& state = states[static_cast<std::size_t>(h)];
      // Without any entry the sink's term is infinite and the result 0.
      const float total = state.denominator + exp_float(sink[part.first + h] - state.top);
      for (std::int64_t j = 0; j < d; ++j) {
        numerators[h * d + j] /= total;
      }
    }
    narrow(numerators, part.count * d, o + (row * heads + part.first) * d);
  };
  split(
      n * shares, 3 * length * d * (heads + 1) / shares, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t share = item % shares;
          const std::int64_t first = heads * share / shares;
          attend(item / shares, {first, heads * (share + 1) / shares - first});
        }
      });
}

}  // namespace shoal::kernels::cpu
