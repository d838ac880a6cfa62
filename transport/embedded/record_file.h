// The record in a file: DIRECTORY/cluster.record, replaced as a whole and durable before write()
// returns. A header with a checksum tells a record from a torn or foreign file.
#pragma once

#include <filesystem>

#include "schemas/result.h"
#include "transport/cluster_store.h"

namespace shoal::transport {

class RecordFile {
 public:
  // A record is names and numbers of a cluster's nodes; more is a mistake.
  static constexpr std::size_t kBytesMax = std::size_t{4} << 20;

  explicit RecordFile(const std::filesystem::path& directory)
      : directory_(directory),
        path_(directory / "cluster.record") {}

  // Version 0 where there is no file.
  Result<ClusterRecord> read() const;
  Result<void> write(const ClusterRecord& record) const;
  Result<void> check_writable() const;

 private:
  std::filesystem::path temporary() const { return path_.string() + ".new"; }

  std::filesystem::path directory_;
  std::filesystem::path path_;
};

}  // namespace shoal::transport
