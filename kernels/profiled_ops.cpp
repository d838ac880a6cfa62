// One timer around every entry of the table.
#include "kernels/profiled_ops.h"

namespace shoal::kernels {

class ProfiledOps::Timer {
 public:
  Timer(const ProfiledOps& ops, Op op) : ops_(ops), op_(op), began_(ops.clock_()) {}

  ~Timer() {
    ops_.calls_[op_].fetch_add(1, std::memory_order_relaxed);
    ops_.nanos_[op_].fetch_add((ops_.clock_() - began_).count(), std::memory_order_relaxed);
  }

  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  const ProfiledOps& ops_;
  Op op_;
  Instant began_;
};

std::vector<OpTime> ProfiledOps::times() const {
  static constexpr std::array<std::string_view, kOpCount> kNames = {
      "quantize",   "linear_quantized", "linear_bf16",  "linear_f32",    "rms_norm",
      "hc_mixes",   "hc_split",         "hc_collapse",  "hc_expand",     "hc_mean",
      "rope",       "pack_window",      "pack_main",    "pack_index",    "qdq_index",
      "pool_pairs", "scale_rows",       "index_scores", "attention",     "gate_scores",
      "route",      "swiglu",           "combine",      "engram_lookup", "engram_update",
  };
  std::vector<OpTime> out;
  for (std::size_t i = 0; i < kOpCount; ++i) {
    out.push_back(OpTime{kNames[i], calls_[i].load(), Nanos{nanos_[i].load()}});
  }
  return out;
}

Nanos ProfiledOps::total() const {
  Nanos sum{0};
  for (const OpTime& op : times()) {
    sum += op.time;
  }
  return sum;
}

void ProfiledOps::reset() {
  for (std::size_t i = 0; i < kOpCount; ++i) {
    calls_[i] = 0;
    nanos_[i] = 0;
  }
}

void ProfiledOps::quantize(const Bf16* x, std::int64_t n, std::int64_t k, QuantRows out) const {
  const Timer timer(*this, kQuantize);
  inner_.quantize(x, n, k, out);
}

void ProfiledOps::linear_quantized(const Weight& w, QuantRows x, std::int64_t n, Bf16* y) const {
  const Timer timer(*this, kLinearQuantized);
  inner_.linear_quantized(w, x, n, y);
}

void ProfiledOps::linear_bf16(const Weight& w,
                              const Bf16* x,
                              std::int64_t x_stride,
                              std::int64_t n,
                              Bf16* y,
                              std::int64_t y_stride) const {
  const Timer timer(*this, kLinearBf16);
  inner_.linear_bf16(w, x, x_stride, n, y, y_stride);
}

void ProfiledOps::linear_f32(const Weight& w, const Bf16* x, std::int64_t n, float* y) const {
  const Timer timer(*this, kLinearF32);
  inner_.linear_f32(w, x, n, y);
}

void ProfiledOps::rms_norm(
    const Bf16* x, const float* w, std::int64_t n, std::int64_t d, float eps, Bf16* y) const {
  const Timer timer(*this, kRmsNorm);
  inner_.rms_norm(x, w, n, d, eps, y);
}

void ProfiledOps::hc_mixes(
    const Bf16* h, const HcWeights& w, const HcShape& shape, std::int64_t n, HcMix out) const {
  const Timer timer(*this, kHcMixes);
  inner_.hc_mixes(h, w, shape, n, out);
}

void ProfiledOps::hc_split(
    const float* m, const HcWeights& w, const HcShape& shape, std::int64_t n, HcMix out) const {
  const Timer timer(*this, kHcSplit);
  inner_.hc_split(m, w, shape, n, out);
}

void ProfiledOps::hc_collapse(
    const Bf16* h, const float* mix, const HcShape& shape, std::int64_t n, Bf16* y) const {
  const Timer timer(*this, kHcCollapse);
  inner_.hc_collapse(h, mix, shape, n, y);
}

void ProfiledOps::hc_expand(const Bf16* y,
                            const Bf16* h,
                            const float* post,
                            const float* comb,
                            const HcShape& shape,
                            std::int64_t n,
                            Bf16* out) const {
  const Timer timer(*this, kHcExpand);
  inner_.hc_expand(y, h, post, comb, shape, n, out);
}

void ProfiledOps::hc_mean(const Bf16* h, const HcShape& shape, std::int64_t n, Bf16* y) const {
  const Timer timer(*this, kHcMean);
  inner_.hc_mean(h, shape, n, y);
}

void ProfiledOps::rope(Bf16* x,
                       const std::int64_t* positions,
                       std::span<const float> freqs,
                       std::int64_t n,
                       std::int64_t heads,
                       std::int64_t d,
                       bool inverse) const {
  const Timer timer(*this, kRope);
  inner_.rope(x, positions, freqs, n, heads, d, inverse);
}

void ProfiledOps::pack_window(const Bf16* x,
                              std::int64_t n,
                              std::int64_t d,
                              std::byte* const* out) const {
  const Timer timer(*this, kPackWindow);
  inner_.pack_window(x, n, d, out);
}

void ProfiledOps::pack_main(const Bf16* x,
                            std::int64_t n,
                            std::int64_t d,
                            std::byte* const* out) const {
  const Timer timer(*this, kPackMain);
  inner_.pack_main(x, n, d, out);
}

void ProfiledOps::pack_index(const Bf16* x,
                             std::int64_t n,
                             std::int64_t d,
                             std::byte* const* out) const {
  const Timer timer(*this, kPackIndex);
  inner_.pack_index(x, n, d, out);
}

void ProfiledOps::qdq_index(Bf16* x, std::int64_t n, std::int64_t d) const {
  const Timer timer(*this, kQdqIndex);
  inner_.qdq_index(x, n, d);
}

void ProfiledOps::pool_pairs(
    const float* kv, const float* score, std::int64_t m, std::int64_t d, Bf16* y) const {
  const Timer timer(*this, kPoolPairs);
  inner_.pool_pairs(kv, score, m, d, y);
}

void ProfiledOps::scale_rows(Bf16* w, std::int64_t count, float factor) const {
  const Timer timer(*this, kScaleRows);
  inner_.scale_rows(w, count, factor);
}

void ProfiledOps::index_scores(const Bf16* iq,
                               const Bf16* w,
                               std::int64_t heads,
                               const IndexKeys& keys,
                               std::span<const EntryRange> ranges,
                               float* scores) const {
  const Timer timer(*this, kIndexScores);
  inner_.index_scores(iq, w, heads, keys, ranges, scores);
}

void ProfiledOps::attention(const Bf16* q,
                            const KvEntry* lists,
                            std::int64_t length,
                            const float* sink,
                            float scale,
                            std::int64_t n,
                            std::int64_t heads,
                            std::int64_t d,
                            Bf16* o) const {
  const Timer timer(*this, kAttention);
  inner_.attention(q, lists, length, sink, scale, n, heads, d, o);
}

void ProfiledOps::gate_scores(const Weight& gate,
                              const Bf16* x,
                              std::int64_t n,
                              float* scores) const {
  const Timer timer(*this, kGateScores);
  inner_.gate_scores(gate, x, n, scores);
}

void ProfiledOps::route(const float* scores,
                        const float* const* bias,
                        const RouteParams& params,
                        std::int64_t n,
                        std::int32_t* experts,
                        float* weights) const {
  const Timer timer(*this, kRoute);
  inner_.route(scores, bias, params, n, experts, weights);
}

void ProfiledOps::swiglu(const Bf16* g,
                         const Bf16* u,
                         const float* weights,
                         float limit,
                         std::int64_t n,
                         std::int64_t inter,
                         Bf16* t) const {
  const Timer timer(*this, kSwiglu);
  inner_.swiglu(g, u, weights, limit, n, inter, t);
}

void ProfiledOps::combine(const Bf16* outputs,
                          const std::int32_t* experts,
                          const Bf16* shared,
                          std::int64_t n,
                          int k,
                          std::int64_t d,
                          Bf16* y) const {
  const Timer timer(*this, kCombine);
  inner_.combine(outputs, experts, shared, n, k, d, y);
}

void ProfiledOps::engram_lookup(const EngramTable& table,
                                const std::int64_t* rows,
                                std::int64_t n,
                                std::int64_t cols,
                                Bf16* y) const {
  const Timer timer(*this, kEngramLookup);
  inner_.engram_lookup(table, rows, n, cols, y);
}

void ProfiledOps::engram_update(Bf16* h,
                                const Bf16* kv,
                                const float* weight,
                                const std::uint8_t* open,
                                const HcShape& shape,
                                std::int64_t n,
                                float* gates) const {
  const Timer timer(*this, kEngramUpdate);
  inner_.engram_update(h, kv, weight, open, shape, n, gates);
}

}  // namespace shoal::kernels
