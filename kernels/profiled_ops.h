// Measures another operator table: calls and wall time per operator, on the clock it is given.
// Values pass through unchanged.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "schemas/units.h"

namespace shoal::kernels {

struct OpTime {
  std::string_view name;
  std::int64_t calls = 0;
  Nanos time{0};  // summed over callers: calls from inside a parallel loop overlap
};

// Thread-safe if the table it measures is. Both outlive it.
class ProfiledOps final : public Ops {
 public:
  ProfiledOps(const Ops& inner, std::function<Instant()> clock)
      : inner_(inner),
        clock_(std::move(clock)) {}

  std::vector<OpTime> times() const;  // every operator, in the order of the table
  Nanos total() const;
  void reset();

  void quantize(const Bf16* x, std::int64_t n, std::int64_t k, QuantRows out) const override;
  void linear_quantized(const Weight& w, QuantRows x, std::int64_t n, Bf16* y) const override;
  void linear_bf16(const Weight& w,
                   const Bf16* x,
                   std::int64_t x_stride,
                   std::int64_t n,
                   Bf16* y,
                   std::int64_t y_stride) const override;
  void linear_f32(const Weight& w, const Bf16* x, std::int64_t n, float* y) const override;
  void rms_norm(const Bf16* x, const float* w, std::int64_t n, std::int64_t d, float eps, Bf16* y)
      const override;
  void hc_mixes(const Bf16* h,
                const HcWeights& w,
                const HcShape& shape,
                std::int64_t n,
                HcMix out) const override;
  void hc_split(const float* m,
                const HcWeights& w,
                const HcShape& shape,
                std::int64_t n,
                HcMix out) const override;
  void hc_collapse(const Bf16* h,
                   const float* mix,
                   const HcShape& shape,
                   std::int64_t n,
                   Bf16* y) const override;
  void hc_expand(const Bf16* y,
                 const Bf16* h,
                 const float* post,
                 const float* comb,
                 const HcShape& shape,
                 std::int64_t n,
                 Bf16* out) const override;
  void hc_mean(const Bf16* h, const HcShape& shape, std::int64_t n, Bf16* y) const override;
  void rope(Bf16* x,
            const std::int64_t* positions,
            std::span<const float> freqs,
            std::int64_t n,
            std::int64_t heads,
            std::int64_t d,
            bool inverse) const override;
  void pack_window(const Bf16* x,
                   std::int64_t n,
                   std::int64_t d,
                   std::byte* const* out) const override;
  void pack_main(const Bf16* x,
                 std::int64_t n,
                 std::int64_t d,
                 std::byte* const* out) const override;
  void pack_index(const Bf16* x,
                  std::int64_t n,
                  std::int64_t d,
                  std::byte* const* out) const override;
  void qdq_index(Bf16* x, std::int64_t n, std::int64_t d) const override;
  void pool_pairs(
      const float* kv, const float* score, std::int64_t m, std::int64_t d, Bf16* y) const override;
  void scale_rows(Bf16* w, std::int64_t count, float factor) const override;
  void index_scores(const Bf16* iq,
                    const Bf16* w,
                    std::int64_t heads,
                    const IndexKeys& keys,
                    std::span<const EntryRange> ranges,
                    float* scores) const override;
  void attention(const Bf16* q,
                 const KvEntry* lists,
                 std::int64_t length,
                 const float* sink,
                 float scale,
                 std::int64_t n,
                 std::int64_t heads,
                 std::int64_t d,
                 Bf16* o) const override;
  void gate_scores(const Weight& gate, const Bf16* x, std::int64_t n, float* scores) const override;
  void route(const float* scores,
             const float* const* bias,
             const RouteParams& params,
             std::int64_t n,
             std::int32_t* experts,
             float* weights) const override;
  void swiglu(const Bf16* g,
              const Bf16* u,
              const float* weights,
              float limit,
              std::int64_t n,
              std::int64_t inter,
              Bf16* t) const override;
  void combine(const Bf16* outputs,
               const std::int32_t* experts,
               const Bf16* shared,
               std::int64_t n,
               int k,
               std::int64_t d,
               Bf16* y) const override;
  void engram_lookup(const EngramTable& table,
                     const std::int64_t* rows,
                     std::int64_t n,
                     std::int64_t cols,
                     Bf16* y) const override;
  void engram_update(Bf16* h,
                     const Bf16* kv,
                     const float* weight,
                     const std::uint8_t* open,
                     const HcShape& shape,
                     std::int64_t n,
                     float* gates) const override;

 private:
  enum Op : std::uint8_t {
    kQuantize,
    kLinearQuantized,
    kLinearBf16,
    kLinearF32,
    kRmsNorm,
    kHcMixes,
    kHcSplit,
    kHcCollapse,
    kHcExpand,
    kHcMean,
    kRope,
    kPackWindow,
    kPackMain,
    kPackIndex,
    kQdqIndex,
    kPoolPairs,
    kScaleRows,
    kIndexScores,
    kAttention,
    kGateScores,
    kRoute,
    kSwiglu,
    kCombine,
    kEngramLookup,
    kEngramUpdate,
    kOpCount,
  };

  class Timer;

  const Ops& inner_;
  std::function<Instant()> clock_;
  mutable std::array<std::atomic<std::int64_t>, kOpCount> calls_{};
  mutable std::array<std::atomic<std::int64_t>, kOpCount> nanos_{};
};

}  // namespace shoal::kernels
