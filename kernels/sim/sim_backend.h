// A device that computes nothing: its tokens are hashes (sim_model.h), so an answer built from a
// wrong history, a wrong block table or somebody else's slot shows at once.
//
// The KV memory is real: each row of a block holds the hash of all tokens up to it. Rows are
// chained to, and tokens drawn from, the hash that is read back from the row before; a step that
// finds another hash than it wrote below its first row is refused with kCorrupt. Behind loaded
// blocks it takes their rows for its own, as a model would: a foreign one changes all that follows.
// A tail is refused when its rows do not follow the loaded ones, which a model would not notice.
// Rows that are computed behind a bounded replay differ from those of a whole run, as a model's do.
// Rows of drafts are written before it is known which of them stay, so windows hold more rows than
// the next one sees.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/kv_image.h"
#include "kernels/sim/sim_model.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal::kernels {

// A row in the KV memory.
inline constexpr std::size_t kSimRowBytes = sizeof(std::uint64_t);

// The shape that its backend has.
ModelShape sim_shape(const SimModel& model);

struct SimSize {
  std::int64_t blocks = 0;
  std::int64_t sequences = 0;
};

class SimBackend final : public Backend {
 public:
  SimBackend(const SimModel& model, const SimSize& size);

  const ModelShape& shape() const override { return shape_; }

  KvArena& arena() override { return arena_; }

  void reset_sequence(SequenceId id) override;

  void end_prefill(SequenceId) override {}

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
  // begin .. end - 1, without gaps.
  struct Rows {
    Position begin = 0;
    Position end = 0;

    bool empty() const { return begin == end; }

    void add(Position first, Position count) {
      begin = first == end ? begin : first;
      end = first + count;
    }
  };

  // Rows that windows hold besides those that the next row sees.
  static constexpr Position kWindowSlack = 12;  // two steps of a row and five drafts
  static constexpr char kDropped[] = "a step of it was not taken, so it only starts anew";
  static constexpr Position kNoRows = std::numeric_limits<Position>::max();

  // What each half ran; its windows hold the last of it.
  struct Windows {
    Rows encoder{};
    Rows decoder{};
    Rows kept{};  // for the decoder half, until the prompt is finished

    void add(const RowRun& run, Position count);
  };

  // What a run that continues goes on from.
  struct Answer {
    TokenId token = -1;     // the last that was drawn; its row is the next
    SampleSpec sampling{};  // of the token behind it
    bool ended = false;
    std::vector<TokenId> drafts{};
    std::vector<float> confidence{};
  };

  struct Sequence {
    std::vector<std::uint64_t> hashes;  // after each token: what its rows must hold
    Windows windows{};
    Position held = 0;               // an import brought no window rows below
    Position reached = 0;            // behind the last row that was written, void ones included
    Position written = kNoRows;      // the first row whose KV was computed here
    std::optional<Answer> answer{};  // none: its last step drew no token
    bool in_step = false;            // that was not taken

    Position tokens() const { return static_cast<Position>(hashes.size()); }
  };

  struct SimStep;

  Result<std::vector<std::byte>> write_image(SequenceId id,
                                             std::span<const BlockId> blocks,
                                             const SequenceSpan& span);
  Result<void> read_image(SequenceId id,
                          std::span<const BlockId> blocks,
                          std::span<const std::byte> image,
                          std::optional<SequenceSpan> part);
  Result<void> read_rows(KvImageReader& in,
                         const SequenceSpan& span,
                         std::span<const BlockId> blocks,
                         Sequence& sequence);
  Result<void> prepare(StepPlan& plan);
  Result<void> resolve(RowRun& run, const Sequence& sequence) const;
  Result<void> check(const RowRun& run, const Sequence& sequence) const;
  Result<void> check_rows(const RowRun& run, const Sequence& sequence) const;
  Result<void> check_windows(const RowRun& run, const Sequence& sequence) const;
  Result<void> check_reach(const RowRun& run, const Sequence& sequence) const;
  std::byte* row(std::span<const BlockId> blocks, Position position);
  std::uint64_t read(std::span<const BlockId> blocks, Position position);
  void adopt(const RowRun& run, Sequence& sequence);
  std::vector<std::size_t> verified(const StepPlan& plan) const;
  void execute(const RowRun& run, std::size_t verified, SimStep& step);
  std::optional<Answer> compute(const RowRun& run,
                                std::span<const TokenId> drafts,
                                RunResult& result);
  void write(const RowRun& run, std::span<const TokenId> tokens);
  Answer draw(const RowRun& run, std::span<const TokenId> drafts, RunResult& result);
  DrawnToken draw_one(const RowRun& run, const SampleSpec& sampling, Position position);
  void make_drafts(const RowRun& run, Position position, Answer& answer);

  SimModel model_;
  ModelShape shape_;
  KvImageFit fit_;
  KvArena arena_;
  std::vector<Sequence> sequences_;
};

}  // namespace shoal::kernels
