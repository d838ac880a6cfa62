// The operator table a device must offer. The model graph is written once over it (kernels/model);
// a device may replace any entry.
//
// Shapes are row-major; n = rows. bf16 buffers hold rounded values: every entry rounds exactly
// where the model does (model spec 3). Entries are thread-safe (no state) and return when the
// result is ready. A row's result never depends on the other rows of the call, on n, or on the
// number of threads: batch, chunk and thread invariance rest on that.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/formats.h"
#include "kernels/weight.h"

namespace shoal::kernels {

// Activations as a quantised linear reads them: E4M3 codes [n][k] and one UE8M0 byte per 32
// [n][k/32].
struct QuantRows {
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
};

// Parameters of one hyper-connection sublayer: fn [(2+C)C][C*D] fp32, base [(2+C)C], scale [3].
struct HcWeights {
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
};

// Output of hc_mixes: pre [n][C], post [n][C], comb [n][C][C] (row = source copy, column = target
// copy).
struct HcMix {
  float* pre = nullptr;
  float* post = nullptr;
  float* comb = nullptr;
};

struct HcShape {
  std::int64_t copies = 4;
  std::int64_t dim = 0;
  int sinkhorn_iters = 20;
  float hc_eps = 1e-6F;
  float norm_eps = 1e-20F;
};

enum class EntryFormat : std::uint8_t { kNone, kBf16, kWindow, kMain };

// One slot of an attention list: where the cached row lies and how it is stored. kNone is a hole.
struct KvEntry {
  const std::byte* row = nullptr;
  EntryFormat format = EntryFormat::kNone;
};

// Which index keys to score, for one query row: `count` entries from entry `first`.
struct EntryRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Index keys of one sequence: keys[b] points at the packed keys of KV block b, `per_block` entries
// each.
struct IndexKeys {
  std::span<const std::byte* const> blocks;
  std::int64_t per_block = 0;
  std::int64_t dim = 0;
};

struct RouteParams {
  std::int64_t experts = 0;
  int top_k = 0;
  float scale = 1.0F;
};

// Engram table rows: E4M3 [rows][dim], UE8M0 [rows][dim/32].
struct EngramTable {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // -- linear
  // ------------------------------------------------------------------------------------------------------------------
  // q8 of bf16 rows [n][k]; k a multiple of 32.
  virtual void quantize(const Bf16* x, std::int64_t n, std::int64_t k, QuantRows out) const = 0;
  // y [n][rows] bf16 from quantised rows; w is kFp8 or kFp4 (model spec 3.1).
  virtual void linear_quantized(const Weight& w, QuantRows x, std::int64_t n, Bf16* y) const = 0;
  // y [n][rows] bf16 from bf16 rows; w is kBf16, kF32 or kFp8 (dequantised to bf16 on the fly:
  // wo_a). Row strides in elements.
  virtual void linear_bf16(const Weight& w,
                           const Bf16* x,
                           std::int64_t x_stride,
                           std::int64_t n,
                           Bf16* y,
                           std::int64_t y_stride) const = 0;
  // y [n][rows] fp32 from bf16 rows; w is kBf16 or kF32: gate, ratio-2 compressor, head, Markov
  // head.
  virtual void linear_f32(const Weight& w, const Bf16* x, std::int64_t n, float* y) const = 0;

  // -- norm, residual stream
  // ---------------------------------------------------------------------------------------------------
  // y = bf16(w * (x / sqrt(mean(x^2) + eps))); x and y may be the same buffer. w [d] fp32.
  virtual void rms_norm(
      const Bf16* x, const float* w, std::int64_t n, std::int64_t d, float eps, Bf16* y) const = 0;
  // h [n][C][D] bf16.
  virtual void hc_mixes(
      const Bf16* h, const HcWeights& w, const HcShape& shape, std::int64_t n, HcMix out) const = 0;
  // The second half of hc_mixes: projections m [n][(2+C)C] (already times rsqrt) -> pre, post,
  // comb.
  virtual void hc_split(const float* m,
                        const HcWeights& w,
                        const HcShape& shape,
                        std::int64_t n,
                        HcMix out) const = 0;
  // y [n][D] = bf16(sum_c mix[c] * h[c]).
  virtual void hc_collapse(
      const Bf16* h, const float* mix, const HcShape& shape, std::int64_t n, Bf16* y) const = 0;
  // out [n][C][D]: out_k = bf16(post_k * y + sum_j comb[j][k] * h_j). out and h may be the same
  // buffer.
  virtual void hc_expand(const Bf16* y,
                         const Bf16* h,
                         const float* post,
                         const float* comb,
                         const HcShape& shape,
                         std::int64_t n,
                         Bf16* out) const = 0;
  // tap [n][D] = bf16(mean over copies of h).
  virtual void hc_mean(const Bf16* h, const HcShape& shape, std::int64_t n, Bf16* y) const = 0;

  // -- rotation and cache rows
  // -------------------------------------------------------------------------------------------------
  // Rotates the last 2*freqs.size() dims of each of `heads` vectors of length d, in place.
  // positions [n].
  virtual void rope(Bf16* x,
                    const std::int64_t* positions,
                    std::span<const float> freqs,
                    std::int64_t n,
                    std::int64_t heads,
                    std::int64_t d,
                    bool inverse) const = 0;
  // bf16 rows [n][d] -> cached rows; out[i] points at row i's destination.
  virtual void pack_window(const Bf16* x,
                           std::int64_t n,
                           std::int64_t d,
                           std::byte* const* out) const = 0;
  virtual void pack_main(const Bf16* x,
                         std::int64_t n,
                         std::int64_t d,
                         std::byte* const* out) const = 0;
  virtual void pack_index(const Bf16* x,
                          std::int64_t n,
                          std::int64_t d,
                          std::byte* const* out) const = 0;
  // Quantise and multiply back (q4), in place: index queries [n][d].
  virtual void qdq_index(Bf16* x, std::int64_t n, std::int64_t d) const = 0;

  // -- compressor
  // --------------------------------------------------------------------------------------------------------------
  // Ratio-2 pooling of m pairs: kv, score [m][2][d] fp32 -> bf16 [m][d] (before the norm).
  virtual void pool_pairs(
      const float* kv, const float* score, std::int64_t m, std::int64_t d, Bf16* y) const = 0;

  // -- indexer
  // -----------------------------------------------------------------------------------------------------------------
  // Head weights: w [n][heads] = bf16(w * factor), in place.
  virtual void scale_rows(Bf16* w, std::int64_t count, float factor) const = 0;
  // Scores of one query row (iq [heads][dim] bf16, w [heads] bf16) against the entries of `ranges`,
  // written one after the other. Called for many rows from inside a parallel loop, or for one long
  // row on its own.
  virtual void index_scores(const Bf16* iq,
                            const Bf16* w,
                            std::int64_t heads,
                            const IndexKeys& keys,
                            std::span<const EntryRange> ranges,
                            float* scores) const = 0;

  // -- attention
  // ---------------------------------------------------------------------------------------------------------------
  // One KV head (K = V). q [n][H][d]; lists [n][length] entries; sink [H] fp32; online softmax in
  // blocks of 64 entries.
  virtual void attention(const Bf16* q,
                         const KvEntry* lists,
                         std::int64_t length,
                         const float* sink,
                         float scale,
                         std::int64_t n,
                         std::int64_t heads,
                         std::int64_t d,
                         Bf16* o) const = 0;

  // -- experts
  // -----------------------------------------------------------------------------------------------------------------
  // sqrt(softplus(W_g x)) [n][experts] fp32.
  virtual void gate_scores(const Weight& gate,
                           const Bf16* x,
                           std::int64_t n,
                           float* scores) const = 0;
  // Top k by score + bias (lower id wins ties), best first; weights normalised unbiased scores
  // times scale. bias [n] pointers to [experts].
  virtual void route(const float* scores,
                     const float* const* bias,
                     const RouteParams& params,
                     std::int64_t n,
                     std::int32_t* experts,
                     float* weights) const = 0;
  // t = bf16(weight * silu(min(g, limit)) * clamp(u, +-limit)); weights may be null (shared
  // expert).
  virtual void swiglu(const Bf16* g,
                      const Bf16* u,
                      const float* weights,
                      float limit,
                      std::int64_t n,
                      std::int64_t inter,
                      Bf16* t) const = 0;
  // y [n][D] = bf16(sum over a row's k outputs in ascending expert id, in fp32, then + shared).
  // outputs [n][k][D] bf16.
  virtual void combine(const Bf16* outputs,
                       const std::int32_t* experts,
                       const Bf16* shared,
                       std::int64_t n,
                       int k,
                       std::int64_t d,
                       Bf16* y) const = 0;

  // -- Engram
  // ------------------------------------------------------------------------------------------------------------------
  // rows [n][cols] table rows -> bf16 [n][cols*dim].
  virtual void engram_lookup(const EngramTable& table,
                             const std::int64_t* rows,
                             std::int64_t n,
                             std::int64_t cols,
                             Bf16* y) const = 0;
  // h [n][C][D] in place: h_c = bf16(h_c + gate_c * value); kv [n][(C+1)*D] = keys then value;
  // weight [C][D] = q*k fp32; open[i] = 0 shuts the gate of an image row. gates (may be null)
  // receives [n][C].
  virtual void engram_update(Bf16* h,
                             const Bf16* kv,
                             const float* weight,
                             const std::uint8_t* open,
                             const HcShape& shape,
                             std::int64_t n,
                             float* gates) const = 0;
};

}  // namespace shoal::kernels
