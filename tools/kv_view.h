// A KV store as it lies in a directory or a Ceph pool: every segment read, nothing opened by a
// store and nothing written. Also of a store that is in use.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tools/kv_plan.h"
#include "transport/block_store_params.h"
#include "transport/file_store/catalog.h"
#include "transport/file_store/file_io.h"
#include "transport/file_store/layout.h"

namespace shoal::tools {

struct KvViewBlock {
  transport::IndexEntry entry;
  transport::SegmentName segment;
  WallMillis last_use = 0;
};

struct KvViewSegment {
  transport::SegmentName name;
  std::int64_t bytes = 0;
  std::int64_t damaged = 0;  // pages; of one that is no segment: 1
  std::string problem;       // why nothing of it reads; empty: it does
  std::string damage;        // what else is wrong with it; empty: nothing
  std::vector<transport::IndexEntry> entries;
};

class KvView {
 public:
  // kMisconfigured: there is no store of this version.
  static Result<KvView> open(const KvPlace& place);

  // Where it is.
  const std::string& place() const { return place_; }

  transport::FileIo& io() const { return *io_; }

  const transport::BlockStoreParams& params() const { return *params_; }

  const std::vector<KvViewSegment>& segments() const { return segments_; }

  // A server may have it open: what that evicted just now is not said in any file yet.
  bool is_open() const { return !beating_.empty(); }

  // Visible ones, in the order of the medium.
  std::vector<KvViewBlock> blocks() const;

  // The whole record, if it is what the index says.
  Result<std::vector<std::byte>> record(const KvViewBlock& block) const;

 private:
  Result<void> read();
  void read(const transport::SegmentName& name, bool may_be_torn);

  std::string place_;
  std::unique_ptr<transport::BlockStoreParams> params_;
  std::shared_ptr<transport::FileIo> io_;
  std::unique_ptr<transport::Catalog> catalog_;
  std::vector<KvViewSegment> segments_;
  std::set<IncarnationId> beating_;  // writers
};

}  // namespace shoal::tools
