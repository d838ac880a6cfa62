// Which KV store a configuration asks for, and what its blocks must have in common.
#pragma once

#include <memory>

#include "actors/config.h"
#include "actors/log.h"
#include "schemas/block_key.h"
#include "schemas/result.h"
#include "tools/device_plan.h"
#include "transport/block_store.h"

namespace shoal::tools {

// Null: none is asked for; or it is the user's cache directory, which cannot be had: the log says
// why. A directory that was named and cannot be had is an error, which says what to do.
Result<std::unique_ptr<transport::BlockStore>> open_blocks(const Config& config,
                                                           const EventLog& log);

// Of what the device runs; no tenant's.
Result<KvIdentity> kv_identity(const DevicePlan& plan);

}  // namespace shoal::tools
