// The rows that a process opens by itself. `memory` and `sim` need a world around them: whoever
// builds one makes them directly.
#include "transport/registry.h"

#include <utility>

#include "transport/embedded/embedded_store.h"
#include "transport/experts/shard_exchange.h"
#include "transport/file_store/file_store.h"
#include "transport/memory/memory_blocks.h"
#ifdef SHOAL_HAS_RADOS
#include "transport/rados_store/rados_store.h"
#endif
#include "transport/tcp/tcp_transport.h"

namespace shoal::transport {

Result<std::unique_ptr<Transport>> open_transport(std::string_view name, TransportParams params) {
  if (name == "tcp") {
    return open_tcp_transport(std::move(params));
  }
  return fail(Code::kMisconfigured, "no transport '" + std::string(name) + "'; there is: tcp");
}

Result<std::unique_ptr<ClusterStore>> open_cluster_store(std::string_view name,
                                                         const std::filesystem::path& directory,
                                                         Clock now) {
  if (name == "embedded") {
    return open_embedded_store(directory, std::move(now));
  }
  return fail(Code::kMisconfigured,
              "no cluster store '" + std::string(name) + "'; there is: embedded");
}

namespace {

tl::unexpected<Error> no_block_store(std::string_view name) {
#ifdef SHOAL_HAS_RADOS
  constexpr char kRows[] = "file, memory, rados";
#else
  constexpr char kRows[] = "file, memory";
  if (name == "rados") {
    return fail(Code::kMisconfigured,
                "this program was built without Ceph; install librados-dev, then configure and "
                "build it again (-DSHOAL_RADOS=ON)");
  }
#endif
  return fail(Code::kMisconfigured,
              "no block store '" + std::string(name) + "'; there are: " + kRows);
}

}  // namespace

Result<std::unique_ptr<BlockStore>> open_block_store(std::string_view name,
                                                     BlockStoreParams params) {
  if (name == "file") {
    return open_file_store(std::move(params));
  }
  if (name == "memory") {
    return make_memory_blocks(std::move(params));
  }
#ifdef SHOAL_HAS_RADOS
  if (name == "rados") {
    return open_rados_store(std::move(params));
  }
#endif
  return no_block_store(name);
}

Result<std::shared_ptr<FileIo>> open_block_files(std::string_view name,
                                                 const BlockStoreParams& params) {
  if (name == "file") {
    return open_file_io(params);
  }
#ifdef SHOAL_HAS_RADOS
  if (name == "rados") {
    return open_rados_files(params);
  }
#endif
  return no_block_store(name);
}

Result<std::unique_ptr<ExpertExchange>> open_expert_exchange(std::string_view name,
                                                             ExpertExchangeParts parts) {
  if (name == "shards") {
    return make_shard_exchange(std::move(parts));
  }
  return fail(Code::kMisconfigured,
              "no expert exchange '" + std::string(name) + "'; there is: shards");
}

}  // namespace shoal::transport
