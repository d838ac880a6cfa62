// Drives a device the way workers do, for tests: sequences with their blocks, whole passes in any
// cutting, logits of every row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/registry.h"

namespace shoal::kernels {

struct RunningSequence {
  SequenceId id;
  std::vector<BlockId> blocks;
  std::vector<TokenId> tokens;
  Position encoder_floor = 0;
  Position decoder_floor = 0;

  Position length() const { return static_cast<Position>(tokens.size()); }
};

class ModelRunner {
 public:
  explicit ModelRunner(const std::string& directory,
                       int threads = 1,
                       SumPrecision sums = SumPrecision::kSingle,
                       const std::string& instructions = "auto");

  Backend& backend() { return device_->backend(); }

  RunningSequence open(std::int64_t max_tokens);

  // The next rows of a sequence through all layers, as a run (not executed).
  RowRun full_run(const RunningSequence& sequence,
                  const std::vector<TokenId>& tokens,
                  WantLogits want = WantLogits::kAll) const;
  StepResult execute(std::vector<RowRun> runs, Queue queue = Queue::kPrefill);
  // All layers on these rows -> logits [rows][vocab].
  std::vector<float> full(RunningSequence& sequence, const std::vector<TokenId>& tokens);
  // Split prefill of a prompt in chunks that cover [lo, n); hit > 0: the sequence holds the
  // prefix's global KV, windows are replayed from hit - W. -> logits of the kept rows and the first
  // kept position.
  RunResult split(RunningSequence& sequence,
                  const std::vector<TokenId>& prompt,
                  std::vector<std::int64_t> chunks = {},
                  Position hit = 0);
  // Forgets rows at and beyond `length`, as after rejected drafts.
  void truncate(RunningSequence& sequence, Position length);

  std::int64_t vocab() { return backend().shape().vocab; }

 private:
  std::unique_ptr<Device> device_;
};

// Golden ids as token ids: all of them, or the first `count`.
std::vector<TokenId> token_ids(const std::vector<std::int64_t>& ids);
std::vector<TokenId> prefix(const std::vector<TokenId>& tokens, std::int64_t count);
std::vector<TokenId> random_tokens(std::uint64_t seed,
                                   std::int64_t count,
                                   TokenId from,
                                   TokenId to);
// Largest absolute difference; both non-empty and of equal size.
float max_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace shoal::kernels
