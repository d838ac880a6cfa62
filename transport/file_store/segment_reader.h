// What a segment says it holds, read from its end: also one that is being written, and one whose
// writer died in the middle.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/file_store/file_io.h"
#include "transport/file_store/layout.h"

namespace shoal::transport {

// How far somebody has read a segment.
struct SegmentProgress {
  std::uint64_t bytes = 0;    // of the file when it was read
  std::uint64_t end = 0;      // behind the last index page; what is behind that is not stored yet
  std::uint64_t entries = 0;  // known

  friend bool operator==(const SegmentProgress&, const SegmentProgress&) = default;
};

struct SegmentNews {
  SegmentProgress progress;
  std::vector<IndexEntry> added;  // behind what was known, oldest first
  std::int64_t damaged = 0;       // pages and entries that should be there and do not read
  std::int64_t broken = 0;  // index pages that do not read: damaged, or torn with their writer
  bool has_header = true;   // false, and nothing added: its writer died in the first group
  bool is_whole = false;    // it ends with an index page

  // Something was cut off, unless its writer is in the middle of a group or died there: then it is
  // the last of its class, and there is a heartbeat of that writer.
  bool is_cut() const { return !is_whole && broken == 0; }
};

// `bytes` is the file's size. kCorrupt: it is another segment; kNotFound, kUnavailable: as FileIo.
Result<SegmentNews> read_segment(FileIo& io,
                                 const SegmentName& name,
                                 std::uint64_t bytes,
                                 const SegmentProgress& known);

}  // namespace shoal::transport
