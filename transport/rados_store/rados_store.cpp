// Joins the store of files to the files that are objects.
#include "transport/rados_store/rados_store.h"

#include <utility>

#include "transport/file_store/file_store.h"
#include "transport/rados_store/rados_io.h"

namespace shoal::transport {

Result<std::unique_ptr<BlockStore>> open_rados_store(BlockStoreParams params) {
  TRY(auto cluster, RadosCluster::connect(params.rados));
  const std::string where = cluster->name();
  TRY(auto io, RadosIo::open(std::move(cluster), params.now));
  return open_file_store(std::move(params), std::move(io), where);
}

}  // namespace shoal::transport
