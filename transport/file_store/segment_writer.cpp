// A group is one run of bytes in the file: records, then index pages.
#include "transport/file_store/segment_writer.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal::transport {

Result<SegmentWriter::Appended> SegmentWriter::append(
    std::span<IndexEntry> entries,
    std::span<const std::span<const std::byte>> records,
    WallMillis now) {
  CHECK(entries.size() == records.size() && !entries.empty());
  const auto done = [&]() -> Result<void> {
    if (file_ == nullptr) {
      TRY_VOID(begin(now));
    }
    TRY_VOID(append_records(entries, records));
    return append_index(entries);
  }();
  if (!done) {
    abandon();
    return tl::unexpected(done.error());
  }
  const Appended appended{name_, end_};
  if (static_cast<std::int64_t>(end_) >= full_) {
    close();
  }
  return appended;
}

void SegmentWriter::close() {
  if (file_ != nullptr) {
    file_ = nullptr;
    ++name_.number;
  }
}

Result<void> SegmentWriter::begin(WallMillis now) {
  TRY(file_, io_.create(to_string(name_)));
  end_ = durable_ = 0;
  tail_ = {};
  const auto page = staging_.at_least(kPageBytes);
  write_header_page(name_, now, page);
  return write(page);
}

Result<void> SegmentWriter::append_records(std::span<IndexEntry> entries,
                                           std::span<const std::span<const std::byte>> records) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].empty()) {
      entries[i].page = static_cast<std::uint32_t>((end_ + bytes) / kPageBytes);
      entries[i].pages = static_cast<std::uint32_t>(records[i].size() / kPageBytes);
      bytes += records[i].size();
    }
  }
  if (bytes == 0) {
    return {};
  }
  const auto staged = staging_.at_least(bytes);
  auto to = staged.begin();
  for (const auto& record : records) {
    to = std::copy(record.begin(), record.end(), to);
  }
  TRY_VOID(write(staged));
  return io_.sync(*file_);
}

Result<void> SegmentWriter::append_index(std::span<const IndexEntry> entries) {
  const std::size_t pages = (tail_.entries.size() + entries.size()) / kEntriesPerPage + 1;
  const auto staged = staging_.at_least(pages * kPageBytes);
  std::size_t used = 0;
  const auto emit = [&] {
    tail_.page = static_cast<std::uint32_t>(end_ / kPageBytes + used);
    write_index_page(tail_, name_, staged.subspan(used * kPageBytes, kPageBytes));
    ++used;
    if (tail_.entries.size() == kEntriesPerPage) {
      tail_ = {0, tail_.page, tail_.first + kEntriesPerPage, {}};
    }
  };
  for (const IndexEntry& entry : entries) {
    tail_.entries.push_back(entry);
    if (tail_.entries.size() == kEntriesPerPage) {
      emit();
    }
  }
  if (!tail_.entries.empty()) {
    emit();
  }
  TRY_VOID(write(staged.first(used * kPageBytes)));
  TRY_VOID(io_.sync(*file_));
  durable_ = end_;
  return {};
}

Result<void> SegmentWriter::write(std::span<const std::byte> bytes) {
  TRY_VOID(io_.write(*file_, end_, bytes));
  end_ += bytes.size();
  return {};
}

// After a failed sync nobody knows what of the segment is on the medium: nothing is added to it any
// more. What a failed group left is cut off, so that it takes no room and cannot become visible.
void SegmentWriter::abandon() {
  if (file_ == nullptr) {
    ++name_.number;  // perhaps it was created
    return;
  }
  if (durable_ == 0) {
    static_cast<void>(io_.remove(to_string(name_)));
  } else {
    static_cast<void>(io_.truncate(*file_, durable_));
  }
  close();
}

}  // namespace shoal::transport
