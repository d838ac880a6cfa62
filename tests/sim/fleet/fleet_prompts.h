// Recorded prompts as runs of blocks that are always used together, so that a store of a whole
// fleet's KV looks at a few runs a prompt instead of a thousand blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/trace_file.h"

namespace shoal::sim {

inline constexpr std::uint32_t kNoRun = 0xFFFFFFFF;

// No prompt begins or ends inside it, and none leaves it: what is in a prompt is whole runs, each
// behind its parent.
struct PromptRun {
  std::int64_t first = 0;  // block id; the others follow
  std::int64_t count = 0;
  std::int64_t before = 0;  // blocks of the prompt that come before it
  std::uint32_t parent = kNoRun;
};

class PromptRuns {
 public:
  PromptRuns() = default;
  explicit PromptRuns(std::span<const TraceRequest> trace);

  std::span<const PromptRun> runs() const { return runs_; }

  // The last run of each request's prompt; kNoRun: it has no whole block.
  std::span<const std::uint32_t> last_of() const { return last_; }

 private:
  std::vector<PromptRun> runs_;
  std::vector<std::uint32_t> last_;
};

}  // namespace shoal::sim
