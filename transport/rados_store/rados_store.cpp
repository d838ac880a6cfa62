// Joins the store of files to the files that are objects.
#include "transport/rados_store/rados_store.h"

#include <utility>

#include "transport/file_store/file_store.h"
#include "transport/rados_store/rados_io.h"

namespace shoal::transport {

Result<std::unique_ptr<BlockStore>> open_rados_store(BlockStoreParams params) {
  TRY(auto cluster, RadosCluster::connect(params.rados));
  const std::string where = cluster->name();
  auto io = std::make_shared<RadosIo>(std::move(cluster), params.now);
  TRY_VOID(io->make_directory());
  return open_file_store(std::move(params), std::move(io), where);
}

Result<std::shared_ptr<FileIo>> open_rados_files(const BlockStoreParams& params) {
  TRY(auto cluster, RadosCluster::connect(params.rados));
  return std::make_shared<RadosIo>(std::move(cluster), params.now);
}

}  // namespace shoal::transport
