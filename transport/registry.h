// Opens rows of the transport, the cluster store, the block store and the expert exchange by
// name.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "transport/block_store_params.h"
#include "transport/cluster_store.h"
#include "transport/expert_exchange.h"
#include "transport/params.h"

namespace shoal::transport {

class FileIo;

// "tcp". kMisconfigured: no such row, or it cannot listen there.
Result<std::unique_ptr<Transport>> open_transport(std::string_view name, TransportParams params);

// "embedded". kMisconfigured: no such row, or the directory cannot be had.
Result<std::unique_ptr<ClusterStore>> open_cluster_store(std::string_view name,
                                                         const std::filesystem::path& directory,
                                                         Clock now);

// "file", "memory"; "rados" where it was built with librados. kMisconfigured: no such row, or
// what is named can never be a store of this version; kUnavailable, kNoCapacity: the medium does
// not answer, or lets nobody make a store.
Result<std::unique_ptr<BlockStore>> open_block_store(std::string_view name,
                                                     BlockStoreParams params);

// The files of a store that "file" or "rados" would open, to be looked into: nothing is made.
// Errors likewise.
Result<std::shared_ptr<FileIo>> open_block_files(std::string_view name,
                                                 const BlockStoreParams& params);

// "shards"; without any ("local") a device runs its experts itself. kMisconfigured: no such row.
Result<std::unique_ptr<ExpertExchange>> open_expert_exchange(std::string_view name,
                                                             ExpertExchangeParts parts);

}  // namespace shoal::transport
