// Appends to this process's own segments of one TTL class: records, made durable, then the index
// page that makes them visible, made durable, together with the next records where there are any.
// One thread at a time.
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

  // Records that lie one behind the other. The entries with `pages` have one each, in that order;
  // their `page` is set. Durable when it returns: everything before it, so that a run of groups
  // takes one sync each. After an error all that is not durable counts as not stored, and the next
  // call begins a new segment.
  Result<Appended> extend(std::span<IndexEntry> entries,
                          std::span<const std::byte> records,
                          WallMillis now);

  // Durable when it returns: everything.
  Result<Appended> settle();

  // The segment is to be settled: the next group goes into another.
  bool is_full() const { return static_cast<std::int64_t>(end_) >= full_; }

  // The next call of extend() begins a new segment. What is not settled is not stored.
  void close();

 private:
  Result<void> begin(WallMillis now);
  Result<void> append_records(std::span<IndexEntry> entries, std::span<const std::byte> records);
  Result<void> append_index();
  Result<void> write(std::span<const std::byte> bytes);
  Result<Appended> finish(const Result<void>& done);
  void abandon();

  FileIo& io_;
  SegmentName name_;
  const std::int64_t full_;
  FileIo::FilePtr file_;
  std::uint64_t end_ = 0;      // behind what was written
  std::uint64_t durable_ = 0;  // behind the last index page that is
  IndexPage tail_;             // what the next index page begins with
  std::vector<IndexEntry> unsettled_;
  AlignedBuffer pages_;
};

}  // namespace shoal::transport
