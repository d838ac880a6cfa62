// Reads a file of recorded requests; its format is in tests/sim/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "schemas/result.h"

namespace shoal::sim {

// Blocks with consecutive ids.
struct BlockRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

struct TraceRequest {
  std::int64_t arrival_ms = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::string session;  // empty: none
  std::string kind;     // empty: not known
  std::optional<std::int64_t> think_ms;
  std::vector<std::int64_t> image_tokens;
  std::vector<BlockRun> blocks;  // of the prompt; none: it shares nothing
};

// The first `limit` requests; 0: all. kMisconfigured names file and line.
Result<std::vector<TraceRequest>> read_trace(const std::filesystem::path& file, std::int64_t limit);

}  // namespace shoal::sim
