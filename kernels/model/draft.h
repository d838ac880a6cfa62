// The DSpark draft network: tokens from one parallel pass of the stages, for many sequences at a
// time, and a sequential Markov head (model spec 5.1).
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

// A sequence's draft rings, one a stage, get the rows of `count` committed positions.
struct DraftRows {
  std::vector<WindowRing>* rings = nullptr;
  Position first = 0;
  std::int64_t count = 0;
};

// Behind position `last`, whose rows are in the rings, and the token of last + 1.
struct DraftStart {
  const std::vector<WindowRing>* rings = nullptr;
  Position first_row = 0;  // oldest ring position
  Position last = 0;
  TokenId anchor = 0;
};

struct DraftResult {
  std::vector<TokenId> tokens;    // at most [draft_block]
  std::vector<float> confidence;  // of each, logit; on the condition that those before it held
};

// Chooses draft i from its logits [vocab].
using ChooseDraft = std::function<TokenId(int, std::span<const float>)>;
// As sampling at temperature 0.
TokenId choose_likeliest(int, std::span<const float> logits);

// State of one draft pass between two advances. What it looks at stays until it is done.
struct DraftStep {
  std::vector<DraftStart> starts;
  std::vector<Bf16> h;              // [starts][draft_block][C][D]
  std::vector<float> pre;           // [starts][draft_block][C]
  std::vector<std::uint8_t> image;  // [starts][draft_block], none is
  std::vector<Position> positions;  // [starts][draft_block]
  // Once the stages are done.
  std::vector<Bf16> hidden;        // [starts][draft_block][D], before the norm
  std::vector<float> base_logits;  // [starts][draft_block][vocab], before the Markov bias
  int stage = 0;
  bool waiting = false;
  PendingExperts pending;
  Workspace space;  // of the stage
};

// Thread-safe: all state is in the DraftStep. Everything passed in outlives it.
class Drafter {
 public:
  Drafter(const Model& model, const Ops& ops, ExpertPort& experts);

  std::vector<WindowRing> make_rings() const;
  // Projects taps [n][taps * dim] of committed positions to main_x [n][dim].
  std::vector<Bf16> main_x(const Bf16* taps, std::int64_t n, Workspace& space) const;
  // Writes main_x [sum of counts][dim] into every stage's ring of each sequence.
  void commit(std::span<const DraftRows> rows, const Bf16* main_x, Workspace& space) const;

  // Of step.starts.
  void begin(DraftStep& step) const;
  // True when the stages are done; false when step.pending.exchange waits for its outputs.
  bool advance(DraftStep& step) const;
  // Chooses the tokens of one start, after advance() was true. A token below 0 ends them.
  DraftResult finish(const DraftStep& step,
                     std::size_t start,
                     const ChooseDraft& choose = choose_likeliest) const;

 private:
  BlockRows rows_of(DraftStep& step) const;
  void attention(DraftStep& step, const Bf16* x, Bf16* y) const;
  void fill_list(const DraftStart& start,
                 std::size_t stage,
                 const std::byte* own,
                 KvEntry* list) const;
  void window_rows(Workspace& space,
                   const BlockWeights& w,
                   const Bf16* x,
                   const std::int64_t* positions,
                   std::int64_t n,
                   std::byte* out) const;
  void head(DraftStep& step) const;

  const Model& model_;
  const ModelConfig& config_;
  const Ops& ops_;
  ExpertPort& experts_;
  HcShape hc_;
};

}  // namespace shoal::kernels
