// What expert shards cost: the experts of a device in shards of this process, or in processes of
// their own, against the device's own.
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
  int changes = 5;    // of the placement, a second apart
  int processes = 0;  // in place of shards of this process
};

// Prints a line a batch size, and one for the changes. With processes it forks: while this process
// has one thread only.
Result<void> bench_expert_shards(const BenchShardsOptions& options);

}  // namespace shoal::tools
