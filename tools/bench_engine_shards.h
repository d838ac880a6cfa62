// What expert shards cost: the experts of a device in this process's shards against its own.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/result.h"

namespace shoal::tools {

struct BenchShardsOptions {
  std::string model;
  std::int64_t prompt = 64;  // tokens in the cache before decode is timed
  int steps = 100;
  int shards = 4;
  int changes = 5;  // of the placement, a second apart
};

// Prints a line a batch size, and one for the changes.
Result<void> bench_expert_shards(const BenchShardsOptions& options);

}  // namespace shoal::tools
