// Index scores: how much each cached entry matters to one query row (model spec 3.8), fp32, heads
// in ascending order.
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

float score_key(const IndexQuery& query,
                const float* key,
                std::int64_t dim,
                SumPrecision precision) {
  float score = 0;
  for (std::int64_t h = 0; h < query.heads; ++h) {
    const float s = dot(precision, query.q + h * dim, key, dim);
    score += query.w[h] * (s > 0 ? s : 0.0F);
  }
  return score;
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
    float* key = reserve(key_buffer, keys.dim);
    EntryWalk walk(ranges, begin);
    for (std::int64_t i = begin; i < end; ++i) {
      decode_index_row(key_row(keys, walk.next()), keys.dim, key);
      scores[i] = score_key(query, key, keys.dim, precision_);
    }
  });
}

}  // namespace shoal::kernels::cpu
