// The DSpark draft network: five tokens from one parallel pass of three stages and a sequential
// Markov head (model spec 5.1).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/expert_port.h"
#include "kernels/model/block_pass.h"
#include "kernels/model/graph.h"
#include "kernels/model/model.h"
#include "kernels/model/sequence_state.h"
#include "kernels/ops.h"
#include "kernels/workspace.h"

namespace shoal::kernels {

struct DraftResult {
  std::vector<TokenId> tokens;     // [draft_block]
  std::vector<float> base_logits;  // [draft_block][vocab], before the Markov bias
  std::vector<float> logits;       // [draft_block][vocab], what the token was chosen from
  std::vector<float>
      confidence;  // [draft_block] logits; conditional on all earlier drafts being accepted
  std::vector<Bf16> hidden;  // [draft_block][dim], before the norm
};

// Chooses draft i from its logits; greedy when empty.
using ChooseDraft = std::function<TokenId(int, std::span<const float>)>;

// State of one draft between two advances. What it looks at stays until it is done.
struct DraftStep {
  const std::vector<WindowRing>* rings = nullptr;
  Position first_row = 0;
  Position last = 0;
  TokenId anchor = 0;
  std::vector<Bf16> h;     // [draft_block][C][D]
  std::vector<float> pre;  // [draft_block][C]
  int stage = 0;
  bool waiting = false;
  PendingExperts pending;
  Workspace space;  // of the stage
};

// Stateless but for scratch: one caller at a time. The rings hold rows of committed positions only.
class Drafter {
 public:
  Drafter(const Model& model, const Ops& ops, ExpertPort& experts);

  std::vector<WindowRing> make_rings() const;
  // Projects taps [n][taps * dim] of committed positions to main_x [n][dim].
  std::vector<Bf16> main_x(const Bf16* taps, std::int64_t n);
  // Writes the ring rows of `n` committed positions from `first` on into every stage's ring.
  void commit(std::vector<WindowRing>& rings, const Bf16* main_x, Position first, std::int64_t n);
  // Drafts behind position `last` (its rows are in the rings) and the anchor token of last + 1.
  // `first_row`: oldest ring position. Many drafts may be open.
  DraftStep begin(const std::vector<WindowRing>& rings,
                  Position first_row,
                  Position last,
                  TokenId anchor) const;
  // True when the stages are done; false when step.pending.exchange waits for its outputs.
  bool advance(DraftStep& step) const;
  // Chooses the tokens, after advance() was true.
  DraftResult finish(DraftStep& step, const ChooseDraft& choose = {});

 private:
  BlockRows rows_of(DraftStep& step) const;
  void attention(DraftStep& step, const Bf16* x, Bf16* y) const;
  void window_rows(Workspace& space,
                   const BlockWeights& w,
                   const Bf16* x,
                   const std::int64_t* positions,
                   std::int64_t n,
                   std::byte* out) const;
  void markov(DraftResult& result, TokenId anchor, const ChooseDraft& choose);

  const Model& model_;
  const ModelConfig& config_;
  const Ops& ops_;
  ExpertPort& experts_;
  HcShape hc_;
  std::vector<std::uint8_t> no_image_;  // [draft_block]
  Workspace space_;
};

}  // namespace shoal::kernels
