// The row `embedded`: the record is a file of this machine. Only processes that share the state
// directory's lock agree by it, and one process holds the lock: the topology's first supervisor.
#pragma once

#include <filesystem>
#include <memory>

#include "transport/cluster_store.h"
#include "transport/scheduler.h"

namespace shoal::transport {

// Creates the directory if need be and locks it. kMisconfigured: it cannot be, or another process
// holds it.
Result<std::unique_ptr<ClusterStore>> open_embedded_store(const std::filesystem::path& directory,
                                                          Clock now);

}  // namespace shoal::transport
