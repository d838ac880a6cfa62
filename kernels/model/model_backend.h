// The backend of any device that offers the operator table: the model graph, the KV arena, sequence
// states and the sampler.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/compute_pool.h"
#include "kernels/expert_port.h"
#include "kernels/kv_image.h"
#include "kernels/model/continuation.h"
#include "kernels/model/draft.h"
#include "kernels/model/graph.h"
#include "kernels/model/model.h"
#include "kernels/model/sequence_image.h"
#include "kernels/ops.h"

namespace shoal::kernels {

struct BackendLimits {
  std::int64_t blocks = 0;     // KV blocks of kBlockTokens tokens
  std::int64_t sequences = 0;  // sequences that hold state at a time
  bool drafts = true;          // false: DSpark stages are not run, and their rings stay empty
  Acceptance acceptance = Acceptance::kCoupled;
};

// kInvalid, naming the run.
tl::unexpected<Error> bad_run(const RowRun& run, const std::string& what);

// Continues what has ended, or was lost.
inline bool has_no_rows(const RowRun& run) {
  return run.continues && run.tokens.empty();
}

// What a device with this model offers. A node without one knows it, too; its numeric_id is empty.
ModelShape model_shape(const ModelConfig& config, std::string numeric_id);

class ModelBackend final : public Backend {
 public:
  // Everything passed in outlives the backend. numeric_id names device and arithmetic.
  ModelBackend(const Model& model,
               const Ops& ops,
               ComputePool& pool,
               ExpertPort& experts,
               const BackendLimits& limits,
               std::string numeric_id);

  const ModelShape& shape() const override { return shape_; }

  KvArena& arena() override { return arena_; }

  void reset_sequence(SequenceId id) override;
  void end_prefill(SequenceId id) override;
  Result<std::vector<std::byte>> export_sequence(SequenceId id,
                                                 std::span<const BlockId> blocks,
                                                 Position tokens) override;
  Result<void> import_sequence(SequenceId id,
                               std::span<const BlockId> blocks,
                               std::span<const std::byte> image) override;
  Result<std::vector<std::byte>> export_tail(SequenceId id,
                                             std::span<const BlockId> blocks,
                                             Position tokens) override;
  Result<void> import_tail(const RowRun& run, std::span<const std::byte> image) override;

  void read_block(BlockId id, std::span<std::byte> out) override { arena_.read(id, out); }

  void write_block(BlockId id, std::span<const std::byte> bytes) override {
    arena_.write(id, bytes);
  }

  Result<std::unique_ptr<Step>> begin(StepPlan plan) override;
  StepYield advance(Step& step) override;
  Exchange& exchange(Step& step) override;
  StepResult take(Step& step) override;

 private:
  class ModelStep;

  // Memory of a step, warm from earlier ones.
  struct Running {
    GraphStep graph;
    DraftStep drafts;
  };

  Result<void> resolve(StepPlan& plan) const;
  Result<void> continue_run(RowRun& run) const;
  std::vector<std::size_t> verified(const StepPlan& plan) const;
  Result<void> check(const StepPlan& plan) const;
  Result<void> check_run(const RowRun& run) const;
  std::optional<std::string> missing(const RowRun& run) const;
  std::optional<std::string> missing_window(const RowRun& run) const;
  Result<std::vector<std::byte>> write_image(SequenceId id,
                                             std::span<const BlockId> blocks,
                                             const SequenceSpan& span);
  Result<void> read_image(SequenceId id,
                          std::span<const BlockId> blocks,
                          std::span<const std::byte> image,
                          std::optional<SequenceSpan> part);
  void start(ModelStep& step);
  void draw(ModelStep& step);
  RunResult draw_run(const ModelStep& step, std::size_t run, Continuation& next) const;
  void commit_drafted(ModelStep& step);
  void start_drafts(ModelStep& step) const;
  void choose_drafts(ModelStep& step) const;
  void complete(ModelStep& step);
  std::unique_ptr<Running> take_running();

  const Model& model_;
  ModelShape shape_;
  KvArena arena_;
  Graph graph_;
  Drafter drafter_;
  const Acceptance acceptance_;
  KvImageFit fit_;
  std::vector<std::unique_ptr<SequenceState>> states_;
  std::vector<std::optional<Continuation>> continuations_;  // likewise by sequence; none during a
                                                            // step of it
  mutable std::mutex mutex_;  // guards what follows; held for moments only
  std::vector<std::unique_ptr<Running>> idle_;
};

}  // namespace shoal::kernels
