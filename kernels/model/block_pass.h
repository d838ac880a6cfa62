// One layer as two halves around the experts, shared by the backbone and the DSpark stages: mHC,
// attention, gate; experts, mHC.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/model/graph.h"
#include "kernels/model/model.h"
#include "kernels/ops.h"
#include "kernels/workspace.h"

namespace shoal::kernels {

// The residual stream of the rows of one layer; both halves update it in place.
struct BlockRows {
  std::int64_t count = 0;
  Bf16* h = nullptr;  // [count][C][D]
  float* pre =
      nullptr;  // [count][C]: in, the mix of the previous sublayer; out, the one for the next layer
  const std::uint8_t* image = nullptr;  // [count]
};

// y [n][D] from the normalised attention input x [n][D].
using AttentionPart = std::function<void(const Bf16* x, Bf16* y)>;

QuantRows quantize_rows(
    const Ops& ops, Workspace& space, const Bf16* x, std::int64_t n, std::int64_t k);

// C copies of one token's embedding (or of an image feature); pre-mix (1, 0, 0, 0).
void embed_row(
    const Model& model, const HcShape& hc, TokenId token, const Bf16* feature, Bf16* h, float* pre);

// Everything up to the exchange. Buffers of the result live in `space`. `layer` numbers the
// exchange (stages after the backbone).
PendingExperts pass_to_experts(const Ops& ops,
                               const ModelConfig& config,
                               const HcShape& hc,
                               int layer,
                               const BlockWeights& w,
                               const BlockRows& rows,
                               Workspace& space,
                               const AttentionPart& attention);

// Everything after it: shared expert, sum, second residual update, pre-mix of the next layer.
void pass_from_experts(const Ops& ops,
                       const ModelConfig& config,
                       const HcShape& hc,
                       const BlockWeights& w,
                       const BlockRows& rows,
                       const PendingExperts& pending,
                       Workspace& space);

// y [n][D] from the attention core o [n][heads * head_dim] after the inverse rotation: grouped
// wo_a, then wo_b.
void project_output(const Ops& ops,
                    const ModelConfig& config,
                    const BlockWeights& w,
                    const Bf16* o,
                    std::int64_t n,
                    Workspace& space,
                    Bf16* y);

// A token of the n-gram that ends at row `index` of a run (negative: before the run).
struct EngramToken {
  bool known = false;
  bool dead = false;
  TokenId id = 0;
};

EngramToken engram_token(const GraphRun& run, std::int64_t index);

}  // namespace shoal::kernels
