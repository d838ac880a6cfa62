// Index scores: how much each cached entry matters to one query row (model spec 3.8), fp32, heads
// in ascending order.
#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

namespace {

// The query row as floats: q [heads][dim], w [heads].
struct IndexQuery {
  const float* q = nullptr;
  const float* w = nullptr;
  std::int64_t heads = 0;
};

// Scores of `count` keys from their products with the heads [heads][kTileRows].
void score_keys(const IndexQuery& query, const float* products, std::int64_t count, float* scores) {
  for (std::int64_t i = 0; i < count; ++i) {
    float score = 0;
    for (std::int64_t h = 0; h < query.heads; ++h) {
      const float s = products[h * kTileRows + i];
      score += query.w[h] * (s > 0 ? s : 0.0F);
    }
    scores[i] = score;
  }
}

// keys [kTileRows][dim]. They and the query are bf16 numbers, so their products are exact.
void multiply_keys(const LaneKernels& lanes,
                   SumPrecision precision,
                   const IndexQuery& query,
                   const float* keys,
                   std::int64_t dim,
                   float* products) {
  if (precision == SumPrecision::kDouble) {
    for (std::int64_t i = 0; i < query.heads * kTileRows; ++i) {
      products[i] = dot(precision, query.q + i / kTileRows * dim, keys + i % kTileRows * dim, dim);
    }
    return;
  }
  WeightTile tile{};
  for (int r = 0; r < kTileRows; ++r) {
    tile.codes[r] = reinterpret_cast<const std::uint8_t*>(keys + r * dim);
  }
  lanes.exact(tile, {query.q, query.heads, dim}, products + query.heads * kTileRows, products);
}

// Walks the entries of ranges in order, starting at the `skip`-th.
class EntryWalk {
 public:
  EntryWalk(std::span<const EntryRange> ranges, std::int64_t skip)
      : range_(ranges.data()),
        offset_(skip) {}

  std::int64_t next() {
    while (offset_ >= range_->count) {
      offset_ -= range_->count;
      ++range_;
    }
    return range_->first + offset_++;
  }

 private:
  const EntryRange* range_;
  std::int64_t offset_;
};

const std::byte* key_row(const IndexKeys& keys, std::int64_t entry) {
  const std::byte* block = keys.blocks[static_cast<std::size_t>(entry / keys.per_block)];
  return block + entry % keys.per_block * index_row_bytes(keys.dim);
}

}  // namespace

void CpuOps::scale_rows(Bf16* w, std::int64_t count, float factor) const {
  for (std::int64_t i = 0; i < count; ++i) {
    w[i] = to_bf16(to_float(w[i]) * factor);
  }
}

void CpuOps::index_scores(const Bf16* iq,
                          const Bf16* w,
                          std::int64_t heads,
                          const IndexKeys& keys,
                          std::span<const EntryRange> ranges,
                          float* scores) const {
  CHECK(keys.dim % kGroup == 0 && keys.per_block > 0);
  thread_local std::vector<float> buffer;
  float* q = reserve(buffer, heads * (keys.dim + 1));
  widen(iq, heads * keys.dim, q);
  widen(w, heads, q + heads * keys.dim);
  const IndexQuery query{q, q + heads * keys.dim, heads};
  std::int64_t total = 0;
  for (const EntryRange& range : ranges) {
    total += range.count;
  }
  split(total, (heads + 2) * keys.dim, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> key_buffer;
    float* decoded = reserve(key_buffer, kTileRows * (keys.dim + heads * (kLaneCount + 1)));
    float* products = decoded + kTileRows * keys.dim;
    std::fill_n(decoded, kTileRows * keys.dim, 0.0F);
    EntryWalk walk(ranges, begin);
    for (std::int64_t i = begin; i < end; i += kTileRows) {
      const std::int64_t count = std::min<std::int64_t>(kTileRows, end - i);
      for (std::int64_t r = 0; r < count; ++r) {
        decode_index_row(key_row(keys, walk.next()), keys.dim, decoded + r * keys.dim);
      }
      multiply_keys(lanes_, precision_, query, decoded, keys.dim, products);
      score_keys(query, products, count, scores + i);
    }
  });
}

}  // namespace shoal::kernels::cpu
