// The row `memory` of the block store: records in this process, nothing outlives it.
#pragma once

#include <memory>

#include "transport/block_store_params.h"

namespace shoal::transport {

std::unique_ptr<BlockStore> make_memory_blocks(BlockStoreParams params);

}  // namespace shoal::transport
