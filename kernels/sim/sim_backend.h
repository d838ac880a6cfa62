// A device that computes nothing: every token is a hash of (seed, choice, floors, all tokens before
// it), so an answer built from a wrong history, a wrong block table or somebody else's slot shows
// at once.
//
// The KV memory is real: each row of a block holds the hash of all tokens up to it. Rows are
// chained to, and tokens drawn from, the hash that is read back from the row before; a step that
// finds another hash than it wrote below its first row is refused with kCorrupt. Behind loaded
// blocks it takes their rows for its own, as a model would: a foreign one changes all that follows.
// A tail is refused when its rows do not follow the loaded ones, which a model would not notice.
// Rows that are computed behind a bounded replay differ from those of a whole run, as a model's do.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/kv_image.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal::kernels {

struct SimModel {
  std::int64_t vocab = 512;  // tokens are drawn from [3, vocab), or from `tokens`
  Position max_positions = 4096;
  Position window = 128;
  std::int64_t eos_period = 0;     // one token in so many is EOS; 0: never
  int exchanges = 0;               // times each step yields before it is done
  std::int64_t image_padding = 0;  // bytes an exported sequence carries besides its rows
  std::vector<TokenId> tokens{};   // ascending: what answers are made of, besides EOS
  TokenId bos = 0;
  TokenId eos = 1;
  // As with a model, an answer at temperature 0 depends on its tokens and floors only.
  bool greedy = false;
};

// The shape that its backend has.
ModelShape sim_shape(const SimModel& model);

struct SimSize {
  std::int64_t blocks = 0;
  std::int64_t sequences = 0;
};

// Prompt and answer so far, as the rows of the KV memory hold them.
class SimHistory {
 public:
  SimHistory() = default;

  explicit SimHistory(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) {
      add(token);
    }
  }

  // Behind a row that is known.
  explicit SimHistory(std::uint64_t row) : hash_(row) {}

  void add(TokenId token);
  // The first token behind a hit whose windows begin at `encoder_floor`, a window before it (0:
  // they are whole).
  void add_behind_hit(TokenId token, Position encoder_floor);

  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

// What the device answers after `history`: the truth that tests compare with.
TokenId sim_token(const SimModel& model,
                  const SampleSpec& sampling,
                  Position encoder_floor,
                  Position decoder_floor,
                  const SimHistory& history);

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

  static constexpr Position kNoRows = std::numeric_limits<Position>::max();

  struct Sequence {
    std::vector<std::uint64_t> hashes;  // after each token: what its rows must hold
    Rows encoder{};                     // that each half ran; its windows hold the last of them
    Rows decoder{};
    Position held = 0;           // an import brought no window rows below
    Rows kept{};                 // for the decoder half, until the prompt is finished
    Position written = kNoRows;  // the first row whose KV was computed here

    Position tokens() const { return static_cast<Position>(hashes.size()); }
  };

  struct SimStep;

  struct Drawn {
    SequenceId sequence;
    TokenId token = -1;
  };

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
  Result<void> check(const RowRun& run, const Sequence& sequence) const;
  Result<void> check_rows(const RowRun& run, const Sequence& sequence) const;
  Result<void> check_windows(const RowRun& run, const Sequence& sequence) const;
  Result<void> check_reach(const RowRun& run, const Sequence& sequence) const;
  std::byte* row(std::span<const BlockId> blocks, Position position);
  std::uint64_t read(std::span<const BlockId> blocks, Position position);
  void adopt(const RowRun& run, Sequence& sequence);
  void write(const RowRun& run, Sequence& sequence);
  Result<RowRun> resolve(RowRun run, Queue queue) const;
  RunResult draw(const RowRun& run);

  SimModel model_;
  ModelShape shape_;
  KvImageFit fit_;
  KvArena arena_;
  std::vector<Sequence> sequences_;
  std::array<std::vector<Drawn>, kQueueCount> last_;  // what `previous` refers to
};

}  // namespace shoal::kernels
