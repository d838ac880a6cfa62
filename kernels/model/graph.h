// The V4.1 graph, written once over ops.h: rows of many sequences go through the layers together
// (model spec 3.11).
//
// A step's rows run the encoder half, cross to the decoder half (where prompt rows are dropped but
// for the kept ones) and end in logits. Before every layer's experts the graph stops if the expert
// port has not completed the exchange, and goes on later.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/compute_pool.h"
#include "kernels/expert_port.h"
#include "kernels/kv_arena.h"
#include "kernels/model/model.h"
#include "kernels/model/sequence_state.h"
#include "kernels/ops.h"
#include "kernels/workspace.h"

namespace shoal::kernels {

// Consecutive rows of one run inside a row set.
struct RowSpan {
  int run = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  Position first = 0;
  bool tail = false;  // kept rows of a prompt: their global KV is written already
};

// Rows that go through the same layers together.
struct RowSet {
  std::int64_t count = 0;
  std::vector<RowSpan> spans;
  std::vector<Position> positions;
  std::vector<std::uint8_t> image;
  Bf16* h = nullptr;                // [count][C][D]
  float* pre = nullptr;             // [count][C]
  std::vector<std::int32_t> picks;  // [count][index_topk], ascending, -1 at the end
  std::vector<std::vector<std::int64_t>>
      candidates;  // block ids per row, published by the candidate source
};

// One run of the plan with its state and resolved input.
struct GraphRun {
  const RowRun* plan = nullptr;
  SequenceState* state = nullptr;
  std::vector<TokenId> tokens;
  std::int64_t samples = 0;  // of its last rows: their logits are wanted
};

// What one sublayer pair carries from before the experts to after them.
struct PendingExperts {
  Bf16* shared_input = nullptr;  // [n][D] normalised
  HcMix ffn;                     // mixes of the feed-forward sublayer
  Exchange exchange;
};

// Logits of the rows that asked for them, in run order.
struct LogitRows {
  std::vector<std::int64_t> first_row;  // per run: index of its first row in `values`, -1 if none
  std::vector<std::int64_t> rows;       // per run
  std::vector<Position> positions;      // per run: position of its first row
  std::vector<float> values;            // [sum rows][vocab]
};

// State of one step between two advances.
struct GraphStep {
  std::vector<GraphRun> runs;
  RowSet encoder;
  RowSet decoder;
  RowSet* rows = nullptr;  // the set the current layer works on
  int layer = 0;
  bool waiting = false;
  PendingExperts pending;
  std::vector<std::vector<std::int64_t>> engram_rows;  // per Engram layer: [rows][columns]
  LogitRows logits;
  // What draft stages start from, of the last rows of each span of the decoder half.
  bool taps_wanted = false;     // by runs that feed drafts
  std::vector<RowSpan> tapped;  // `begin` counts in `taps`
  std::vector<Bf16> taps;       // [rows][taps][D]
  Workspace step_space;         // residual streams, logits input
  Workspace layer_space;        // reset at every layer
};

// Thread-safe: all state is in the GraphStep. Everything passed in outlives the graph.
class Graph {
 public:
  Graph(const Model& model, const Ops& ops, ComputePool& pool, KvArena& arena, ExpertPort& experts);

  // Embeds the rows; runs must be filled and resolved.
  void start(GraphStep& step) const;
  // True when the step is done; false when step.pending.exchange waits for its outputs.
  bool advance(GraphStep& step) const;

 private:
  void before_experts(GraphStep& step) const;
  void after_experts(GraphStep& step) const;
  void cross_to_decoder(GraphStep& step) const;
  void keep_rows(GraphStep& step, const RowSpan& span) const;
  void add_decoder_span(GraphStep& step, const RowSpan& span, Bf16* h, float* pre) const;
  void tap(GraphStep& step) const;
  void finish(GraphStep& step) const;
  void remember_tokens(GraphStep& step) const;

  void hash_engram(GraphStep& step) const;
  void update_engram(GraphStep& step, int index) const;

  // attention.cpp
  void attention(GraphStep& step, const Bf16* x, Bf16* y) const;
  void attend(GraphStep& step, const Bf16* q, const std::byte* window_rows, Bf16* o) const;
  void fill_list(const GraphStep& step,
                 const RowSpan& span,
                 Position position,
                 const std::byte* window_rows,
                 KvEntry* list) const;
  void store_window(GraphStep& step, const std::byte* window_rows) const;

  // global_kv.cpp
  enum class Writers : std::uint8_t { kAllSpans, kEncoderOnly, kFullStackOnly };
  void append_global(
      GraphStep& step, int layer, const RowSet& rows, const Bf16* x, Writers writers) const;
  void append_entries(GraphStep& step,
                      int layer,
                      Bf16* latent,
                      const std::vector<std::pair<int, Position>>& entries) const;

  // index_select.cpp
  void select(GraphStep& step, const Bf16* x, QuantRows qr) const;
  void select_row(RowSet& rows,
                  int layer,
                  std::int64_t row,
                  const Bf16* iq,
                  const Bf16* w,
                  const IndexKeys& keys) const;

  QuantRows quantize(Workspace& space, const Bf16* x, std::int64_t n, std::int64_t k) const;

  const BlockWeights& block(int layer) const {
    return model_.weights.blocks[static_cast<std::size_t>(layer)];
  }

  const Model& model_;
  const ModelConfig& config_;
  const Ops& ops_;
  ComputePool& pool_;
  KvArena& arena_;
  ExpertPort& experts_;
  HcShape hc_;
};

}  // namespace shoal::kernels
