// The operator table on CPU cores: the reference for every other device, and itself a product. One
// file per operator family defines the members.
//
// Work is split over the compute pool by rows, heads or weight rows, never inside a sum.
#pragma once

#include <memory>

#include "kernels/compute_pool.h"
#include "kernels/cpu/lane_kernels.h"
#include "kernels/cpu/sums.h"
#include "kernels/ops.h"

namespace shoal::kernels {

// The pool outlives the table. All instruction sets give the same bits.
std::unique_ptr<Ops> make_cpu_ops(ComputePool& pool,
                                  SumPrecision precision,
                                  const cpu::LaneKernels& lanes = cpu::best_lane_kernels());

namespace cpu {

class CpuOps final : public Ops {
 public:
  CpuOps(ComputePool& pool, SumPrecision precision, const LaneKernels& lanes)
      : pool_(pool),
        precision_(precision),
        lanes_(lanes) {}

  // linear.cpp
  void quantize(const Bf16* x, std::int64_t n, std::int64_t k, QuantRows out) const override;
  void linear_quantized(const Weight& w, QuantRows x, std::int64_t n, Bf16* y) const override;
  void linear_bf16(const Weight& w,
                   const Bf16* x,
                   std::int64_t x_stride,
                   std::int64_t n,
                   Bf16* y,
                   std::int64_t y_stride) const override;
  void linear_f32(const Weight& w, const Bf16* x, std::int64_t n, float* y) const override;

  // residual.cpp
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

  // cache_rows.cpp
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

  // indexer.cpp
  void scale_rows(Bf16* w, std::int64_t count, float factor) const override;
  void index_scores(const Bf16* iq,
                    const Bf16* w,
                    std::int64_t heads,
                    const IndexKeys& keys,
                    std::span<const EntryRange> ranges,
                    float* scores) const override;

  // attention.cpp
  void attention(const Bf16* q,
                 const KvEntry* lists,
                 std::int64_t length,
                 const float* sink,
                 float scale,
                 std::int64_t n,
                 std::int64_t heads,
                 std::int64_t d,
                 Bf16* o) const override;

  // experts.cpp
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

  // engram.cpp
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
  template <class Body>
  void split_tiles(const Weight& w, std::int64_t n, const Body& body) const;
  // put(i, row, sums, count), of `count` weight rows from `row` on and row i of x.
  template <class Put>
  void multiply_bf16(
      const Weight& w, const Bf16* x, std::int64_t x_stride, std::int64_t n, const Put& put) const;
  // body(begin, end) over [0, count); each item costs about `work` multiply-adds. Too little work
  // stays on the caller.
  template <class Body>
  void split(std::int64_t count, std::int64_t work, const Body& body) const;

  ComputePool& pool_;
  SumPrecision precision_;
  const LaneKernels& lanes_;
};

// About 20 us of one core: waking a parked thread costs about half of that.
inline constexpr std::int64_t kPieceWork = 65536;

template <class Body>
void CpuOps::split(std::int64_t count, std::int64_t work, const Body& body) const {
  const std::int64_t grain = kPieceWork / (work < 1 ? 1 : work) + 1;
  if (count <= grain || pool_.threads() == 1) {
    if (count > 0) {
      body(std::int64_t{0}, count);
    }
    return;
  }
  pool_.parallel_for(count, grain, body);
}

}  // namespace cpu
}  // namespace shoal::kernels
