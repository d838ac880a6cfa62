// Which KV store a configuration asks for, and what its blocks must have in common.
#pragma once

#include <memory>

#include "actors/config.h"
#include "schemas/block_key.h"
#include "schemas/result.h"
#include "tools/device_plan.h"
#include "transport/block_store.h"

namespace shoal::tools {

// Null: none.
Result<std::unique_ptr<transport::BlockStore>> open_blocks(const Config& config);

// Of what the device runs; no tenant's. Reads the ends of large files only: of the weights their
// names, sizes and headers, and the first and the last bytes.
Result<KvIdentity> kv_identity(const DevicePlan& plan);

}  // namespace shoal::tools
