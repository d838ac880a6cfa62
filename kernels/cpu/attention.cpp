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

// Folds one block into a head: the denominator sums p as it is, the numerator uses p rounded to
// bf16.
void fold_block(const Block& block,
                const float* q,
                float scale,
                std::int64_t d,
                SumPrecision precision,
                Running& state,
                float* numerator) {
  float p[kBlock];
  for (std::int64_t t = 0; t < block.count; ++t) {
    p[t] = dot(precision, q, block.rows + t * d, d) * scale;
  }
  const float top = std::max(state.top, *std::max_element(p, p + block.count));
  const float shrink = exp_float(state.top - top);
  exponentials(p, block.count, top, p);
  state.denominator = state.denominator * shrink + sum(precision, p, block.count);
  state.top = top;
  for (std::int64_t t = 0; t < block.count; ++t) {
    p[t] = round_bf16(p[t]);
  }
  thread_local std::vector<float> buffer;
  float* update = reserve(buffer, d);
  weighted_sum(precision, p, 1, block.rows, block.count, d, update);
  for (std::int64_t j = 0; j < d; ++j) {
    numerator[j] = numerator[j] * shrink + update[j];
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
    float* queries = reserve(buffer, (2 * part.count + kBlock) * d);
    float* numerators = queries + part.count * d;
    Block block{numerators + part.count * d, 0};
    thread_local std::vector<Running> states;
    states.assign(static_cast<std::size_t>(part.count), Running{});
    widen(q + (row * heads + part.first) * d, part.count * d, queries);
    std::fill_n(numerators, part.count * d, 0.0F);
    for (std::int64_t t = 0; t < length; t += kBlock) {
      decode_block(lists + row * length + t, std::min(kBlock, length - t), d, block);
      for (std::int64_t h = 0; block.count > 0 && h < part.count; ++h) {
        fold_block(block,
                   queries + h * d,
                   scale,
                   d,
                   precision_,
                   states[static_cast<std::size_t>(h)],
                   numerators + h * d);
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
