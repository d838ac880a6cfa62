// The row `rados`: the files of the row `file` as objects of a Ceph pool, shared by all processes
// that name the same pool and store.
//
// Durable: on every copy that the pool keeps, the index entry, too; only then visible here and
// acknowledged, and to others within two seconds. When Ceph does not answer, operations end within
// their deadline, then fail at once with kUnavailable, until it answers again.
#pragma once

#include <memory>

#include "transport/block_store_params.h"
#include "transport/file_store/file_io.h"

namespace shoal::transport {

// kMisconfigured: no such configuration, user or pool, or a store of another version;
// kUnavailable: Ceph does not answer.
Result<std::unique_ptr<BlockStore>> open_rados_store(BlockStoreParams params);

// The files of such a store; nothing is made. Errors likewise.
Result<std::shared_ptr<FileIo>> open_rados_files(const BlockStoreParams& params);

}  // namespace shoal::transport
