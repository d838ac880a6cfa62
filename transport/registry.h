// Opens rows of the transport and of the cluster store by name.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "transport/cluster_store.h"
#include "transport/params.h"

namespace shoal::transport {

// "tcp". kMisconfigured: no such row, or it cannot listen there.
Result<std::unique_ptr<Transport>> open_transport(std::string_view name, TransportParams params);

// "embedded". kMisconfigured: no such row, or the directory cannot be had.
Result<std::unique_ptr<ClusterStore>> open_cluster_store(std::string_view name,
                                                         const std::filesystem::path& directory,
                                                         Clock now);

}  // namespace shoal::transport
