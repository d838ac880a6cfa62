// Drives a device the way workers do, for tests: sequences with their blocks, whole passes in any
// cutting, logits of every row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/model/safetensors.h"
#include "kernels/registry.h"

namespace shoal::kernels {

// A fixture file of golden data; a missing tensor fails the test.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name);

  std::vector<float> floats(const std::string& name) const;  // F32
  std::vector<Bf16> bf16(const std::string& name) const;
  std::vector<std::int32_t> ints(const std::string& name) const;
  std::vector<std::uint8_t> bytes(const std::string& name) const;

 private:
  const Tensor& tensor(const std::string& name, Dtype dtype) const;
  SafetensorsFile file_;
};

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
  explicit ModelRunner(const std::string& directory, int threads = 1, Sums sums = Sums::kSingle);

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

std::vector<TokenId> prefix(const std::vector<std::int32_t>& tokens, std::int64_t count);
std::vector<TokenId> random_tokens(std::uint64_t seed,
                                   std::int64_t count,
                                   TokenId from,
                                   TokenId to);
// Largest absolute difference; both non-empty and of equal size.
float max_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace shoal::kernels
