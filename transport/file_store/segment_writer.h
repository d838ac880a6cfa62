// Appends to this process's own segments of one TTL class: records, made durable, then the index
// page that makes them visible, made durable. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/file_store/aligned_buffer.h"
#include "transport/file_store/file_io.h"
#include "transport/file_store/layout.h"

namespace shoal::transport {

class SegmentWriter {
 public:
  // A segment of `full` bytes or more is followed by the next.
  SegmentWriter(FileIo& io, IncarnationId writer, TtlClass ttl, std::int64_t full)
      : io_(io),
        name_{writer, ttl, 0},
        full_(full) {}

  struct Appended {
    SegmentName segment;
    std::uint64_t bytes = 0;  // of the segment now
  };

  // Durable when it returns. Sets the pages of the entries that have a record; `records` has an
  // element for every entry, empty ones for those without. After an error all of it counts as not
  // stored, and the next call begins a new segment.
  Result<Appended> append(std::span<IndexEntry> entries,
                          std::span<const std::span<const std::byte>> records,
                          WallMillis now);

  // The next call of append() begins a new segment.
  void close();

 private:
  Result<void> begin(WallMillis now);
  Result<void> append_records(std::span<IndexEntry> entries,
                              std::span<const std::span<const std::byte>> records);
  Result<void> append_index(std::span<const IndexEntry> entries);
  Result<void> write(std::span<const std::byte> bytes);
  void abandon();

  FileIo& io_;
  SegmentName name_;
  const std::int64_t full_;
  FileIo::FilePtr file_;
  std::uint64_t end_ = 0;      // behind what was written
  std::uint64_t durable_ = 0;  // behind the last index page that is
  IndexPage tail_;             // what the next index page begins with
  AlignedBuffer staging_;      // O_DIRECT wants aligned memory, records are not
};

}  // namespace shoal::transport
