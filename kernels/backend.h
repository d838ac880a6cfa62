// A device that runs steps: the one interface actors see of the model. A step never blocks a
// thread: it is advanced, may ask for an exchange that somebody else completes, and is advanced
// again until it is done.
//
// Threads: begin, advance and take are called by one thread at a time per step; steps of different
// workers may interleave freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expert_port.h"
#include "kernels/kv_arena.h"
#include "kernels/sampler.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/token_tally.h"
#include "schemas/units.h"

namespace shoal::kernels {

// What schedulers need to know of the model.
struct ModelShape {
  std::int64_t vocab = 0;
  Position max_positions = 0;
  Position window = 0;  // W
  int layers = 0;
  int encoder_layers = 0;
  std::int64_t block_bytes = 0;     // one block of kBlockTokens tokens
  std::int64_t sequence_bytes = 0;  // per-sequence state: rings, open pair, kept rows
  std::int64_t tail_bytes = 0;      // no tail of a sequence is larger
  int drafts = 0;                   // made at a time; 0: the device makes none
  TokenId bos = 0;
  TokenId eos = 1;
  std::string numeric_id;    // equal ids give equal bits
  std::string block_layout;  // the bytes of a block in words: equal texts, equal bytes
};

// How one row's token is chosen (design 4.10). Plain values, so that a token depends on (request,
// position, logits) only.
struct SampleSpec {
  float temperature = 0;
  float top_p = 1;
  float min_p = 0;
  int top_k = 0;  // 0: off
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  // index of the answer within its request (n > 1)
  int top_logprobs = -1;     // -1: none; 0..20: that many besides the chosen token's
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  TokenTallyPtr seen{};  // null: there are no penalties
  std::vector<std::pair<TokenId, float>> bias{};
  std::vector<TokenId> forbidden;  // -inf (end tokens below min_tokens, ends of bad words)
};

// How the rest of an answer is chosen as it grows: the device draws several tokens before anybody
// reads the first. Any thread.
class SampleRules {
 public:
  virtual ~SampleRules() = default;
  // `token` was drawn for `position`, by `spec`, which then says how the next one is. False: the
  // answer ends with it.
  virtual bool add(SampleSpec& spec, Position position, TokenId token) const = 0;
};

enum class Stack : std::uint8_t {
  kAll,      // every layer: decode, exact prefill, forced tokens
  kEncoder,  // layers 0..E-1 and the last KV source's global KV; rows from `decoder_floor` on are
             // kept for the decoder half
};

enum class WantLogits : std::uint8_t { kNone, kLast, kAll };

// Tokens before a row that it may depend on besides the KV (Engram's n-grams).
inline constexpr Position kHistoryTokens = 3;

// A run of consecutive rows of one sequence; at most one per sequence and step. Plain data.
struct RowRun {
  SequenceId sequence;
  Position first = 0;
  std::vector<TokenId> tokens;  // one per row
  // In place of them, one row of the token that the sequence's last step drew, behind its rows, and
  // chosen from as its rules say: `first`, `tokens` and `sampling` are the device's to know. No row
  // and no token once the answer has ended, or when that step was lost.
  bool continues = false;
  std::vector<TokenId> history;  // up to kHistoryTokens tokens before `first`, needed once when a
                                 // sequence starts at first > 0, behind blocks that were loaded
  std::vector<std::uint8_t>
      image;  // empty, or one flag per row: rows of an image span (no Engram, own routing bias)
  std::vector<Bf16> features;  // [flagged rows][dim], in the place of their embeddings
  Stack stack = Stack::kAll;
  bool finishes_prompt =
      false;  // kEncoder: the decoder half then runs on all kept rows, logits come from the last
  Position writes_from = 0;     // rows below (replay behind a prefix hit) write window rows only
  Position encoder_floor = 0;   // lo: windows of the encoder half never look below
  Position decoder_floor = 0;   // t: likewise for the decoder half
  std::vector<BlockId> blocks;  // block table covering positions 0 .. first + rows - 1
  WantLogits logits = WantLogits::kNone;
  bool sample = false;  // choose a token from the last row's logits
  SampleSpec sampling;
  std::shared_ptr<const SampleRules> rules{};  // null: one token is drawn, and none after it
  // Of the drafts that are there for the sequence, as many rows follow the run's own at most; those
  // that equal the tokens drawn before them stay. Only behind one row, with rules; never more than
  // the block table has room for.
  int verifies = 0;
  // The draft stages will see the rows, as they see the last W. Saves their time where no drafts are
  // made; those made later see rows from the last gap on.
  bool feeds_drafts = true;
  bool drafts = false;  // make drafts behind the last token drawn, for the next step; feeds them

  std::int64_t rows() const {
    return tokens.empty() ? 1 : static_cast<std::int64_t>(tokens.size());
  }
};

// A run with drafts to verify.
struct DraftedRun {
  std::size_t run = 0;                // of the plan
  std::span<const float> confidence;  // as RunResult's
};

// Shares the rows of a step out between drafts, when their confidences are known. Any thread.
class DraftFill {
 public:
  virtual ~DraftFill() = default;
  // How many of each run's drafts are verified. Must not look at the drafts, nor at a confidence
  // behind the first that it leaves out: what is verified must not depend on what was drawn.
  virtual std::vector<int> lengths(std::span<const DraftedRun> runs) const = 0;
};

// Which worker's chain of steps this is; those of one queue run one after the other. Decode goes
// first on the device.
enum class Queue : std::uint8_t { kDecode, kPrefill };
inline constexpr int kQueueCount = 2;

struct StepPlan {
  StepId id;
  EpochId epoch;
  Queue queue = Queue::kDecode;
  std::vector<RowRun> runs;
  std::shared_ptr<const DraftFill> fill{};  // null: each run as many as it says
};

struct DrawnToken {
  TokenId token = -1;
  float logprob = 0;  // under the unmodified softmax
  float margin = 0;   // best minus second best logit of its row
  std::vector<TokenLogprob> top{};
};

struct RunResult {
  Position first = 0;               // of its rows
  Position end = 0;                 // behind those that stay: what was written further on is void
  std::vector<DrawnToken> drawn{};  // the last at `end`; none: nothing was sampled, or could be
  int verified = 0;                 // drafts, of which drawn.size() - 1 were accepted
  // Of each draft that was made: the chance to hold when those before it do, as the head says.
  std::vector<float> confidence{};
  bool ended = false;           // by a token of this step or of one before
  std::vector<float> logits{};  // [rows or 1][vocab] when asked for
  Position first_logits = 0;    // position of logits row 0
};

struct StepResult {
  std::vector<RunResult> runs;
};

class Step {
 public:
  virtual ~Step() = default;

  // Known when it has begun.
  std::int64_t rows = 0;     // that it runs, those of drafts included
  std::int64_t drafted = 0;  // sequences that it makes drafts for
};

enum class StepYield : std::uint8_t {
  kNeedsExchange,  // complete *Backend::exchange(step), then advance again
  kDone,           // take the result
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const ModelShape& shape() const = 0;
  virtual KvArena& arena() = 0;

  // Forgets the state of a slot that was just taken: nothing of an earlier sequence can be read.
  virtual void reset_sequence(SequenceId id) = 0;
  // Frees what only prefill needs (kept rows) when the sequence moves on to decode.
  virtual void end_prefill(SequenceId id) = 0;

  // Everything that a sequence of `tokens` computed positions needs to go on elsewhere, in a form
  // that says what it fits. kInvalid while its prompt is unfinished.
  virtual Result<std::vector<std::byte>> export_sequence(SequenceId id,
                                                         std::span<const BlockId> blocks,
                                                         Position tokens) = 0;
  // Into a slot and blocks that were just taken; forgets the slot first. Any bytes may come:
  // kCorrupt says what is damaged or differs (layout, numeric id), and leaves the slot as after
  // reset_sequence.
  virtual Result<void> import_sequence(SequenceId id,
                                       std::span<const BlockId> blocks,
                                       std::span<const std::byte> image) = 0;

  // A tail: the same image without the blocks that are whole. It starts any sequence that begins
  // like this one, at `tokens` or up to seven positions before, as far as the windows still reach.
  virtual Result<std::vector<std::byte>> export_tail(SequenceId id,
                                                     std::span<const BlockId> blocks,
                                                     Position tokens) = 0;
  // Brings the run's sequence to where the run starts; the whole blocks below are loaded, and are
  // not written. Nothing is taken of the decoder half's windows when the run's floor hides them.
  // kCorrupt as import_sequence, and when the image lacks what the run needs. For the caller to
  // know: that the tokens below are the same; that none of those from the start on was replayed
  // (the start lies at or behind the earlier sequence's hit); that nothing is sampled at a position
  // before the first that it sampled at, from where on its windows are whole.
  virtual Result<void> import_tail(const RowRun& run, std::span<const std::byte> image) = 0;

  // The bytes of a whole block (shape().block_bytes), for a store that outlives the device. The
  // block is taken, and no running step writes it.
  virtual void read_block(BlockId id, std::span<std::byte> out) = 0;
  virtual void write_block(BlockId id, std::span<const std::byte> bytes) = 0;

  // Checks the plan; kInvalid names the run and what is wrong. The step before it of its queue is
  // over. The plan's slots and blocks must stay taken until the step ends. A step that is not
  // advanced to its end leaves sequences that only start anew.
  virtual Result<std::unique_ptr<Step>> begin(StepPlan plan) = 0;
  virtual StepYield advance(Step& step) = 0;
  virtual Exchange& exchange(Step& step) = 0;
  virtual StepResult take(Step& step) = 0;
};

}  // namespace shoal::kernels
