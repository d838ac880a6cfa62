// Copies blocks into a KV store, also one that servers use, as they lie: with the time of their
// last use, which a store that puts them would begin anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "schemas/result.h"
#include "tools/kv_view.h"
#include "transport/file_store/aligned_buffer.h"
#include "transport/file_store/segment_writer.h"

namespace shoal::tools {

class KvExport {
 public:
  // Makes the store where there is none.
  static Result<std::unique_ptr<KvExport>> begin(const KvPlace& to);

  ~KvExport();
  KvExport(const KvExport&) = delete;
  KvExport& operator=(const KvExport&) = delete;

  // Not one that is there, or one as good.
  Result<void> add(const KvViewBlock& block, const std::vector<std::byte>& record);

  // What was added is durable when it returns.
  Result<void> settle();

 private:
  // Of a class: what is written next.
  struct Group {
    transport::SegmentWriter writer;
    std::vector<transport::IndexEntry> entries;
    transport::AlignedBuffer room;
    std::size_t bytes = 0;
    bool is_settled = true;
  };

  explicit KvExport(KvView view);

  Group group_of(TtlClass ttl) const;
  Result<void> write(Group& group);
  Result<void> settle(Group& group);
  Result<void> beat();

  KvView view_;
  std::unordered_map<BlockKey, Provenance> there_;
  std::array<Group, kTtlClasses> groups_;
  Instant beat_at_{};
};

}  // namespace shoal::tools
