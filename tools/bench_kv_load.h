// Loads as requests see them, one after the other: the blocks are named, looked up, read, verified
// and copied to where a device has them; and what of all that is checksums, by count of the
// processor's ticks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schemas/ids.h"
#include "schemas/result.h"
#include "transport/block_store.h"

namespace shoal::tools {

// How it reads, for a line of print_kv_loads(), and the store that does.
struct LoadingStore {
  const char* way = "";
  transport::BlockStore* store = nullptr;
};

// Of each prompt its first block, then all. kUnavailable: blocks were not there, or damaged.
Result<void> print_kv_loads(const LoadingStore& from,
                            std::span<const std::vector<TokenId>> prompts,
                            std::int64_t payload);

}  // namespace shoal::tools
