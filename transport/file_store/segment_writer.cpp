// A group is one run of bytes in the file: records, then index pages, its own or the group's
// before.
#include "transport/file_store/segment_writer.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal::transport {

Result<SegmentWriter::Appended> SegmentWriter::extend(std::span<IndexEntry> entries,
                                                      std::span<const std::byte> records,
                                                      WallMillis now) {
  CHECK(!entries.empty());
  return finish([&]() -> Result<void> {
    if (file_ == nullptr) {
      TRY_VOID(begin(now));
    }
    TRY_VOID(append_records(entries, records));
    unsettled_.insert(unsettled_.end(), entries.begin(), entries.end());
    return {};
  }());
}

Result<SegmentWriter::Appended> SegmentWriter::settle() {
  CHECK(file_ != nullptr);
  auto settled = finish([&]() -> Result<void> {
    TRY_VOID(append_index());
    TRY_VOID(io_.sync(*file_));
    durable_ = end_;
    return {};
  }());
  if (settled && is_full()) {
    close();
  }
  return settled;
}

Result<SegmentWriter::Appended> SegmentWriter::finish(const Result<void>& done) {
  if (done) {
    return Appended{name_, end_};
  }
  abandon();
  return tl::unexpected(done.error());
}

void SegmentWriter::close() {
  if (file_ != nullptr) {
    file_ = nullptr;
    unsettled_.clear();
    end_ = 0;
    ++name_.number;
  }
}

Result<void> SegmentWriter::begin(WallMillis now) {
  TRY(file_, io_.create(to_string(name_)));
  end_ = durable_ = 0;
  tail_ = {};
  const auto page = pages_.at_least(kPageBytes);
  write_header_page(name_, now, page);
  return write(page);
}

// The index of what is before goes behind the records: a reader finds it at the end.
Result<void> SegmentWriter::append_records(std::span<IndexEntry> entries,
                                           std::span<const std::byte> records) {
  std::uint64_t at = end_;
  for (IndexEntry& entry : entries) {
    if (entry.pages > 0) {
      entry.page = static_cast<std::uint32_t>(at / kPageBytes);
      at += std::uint64_t{entry.pages} * kPageBytes;
    }
  }
  CHECK(at - end_ == records.size());
  if (records.empty()) {
    return {};
  }
  TRY_VOID(write(records));
  const bool has_index = !unsettled_.empty();
  if (has_index) {
    TRY_VOID(append_index());
  }
  TRY_VOID(io_.sync(*file_));
  durable_ = has_index ? end_ : durable_;
  return {};
}

Result<void> SegmentWriter::append_index() {
  const std::size_t pages = (tail_.entries.size() + unsettled_.size()) / kEntriesPerPage + 1;
  const auto staged = pages_.at_least(pages * kPageBytes);
  std::size_t used = 0;
  const auto emit = [&] {
    tail_.page = static_cast<std::uint32_t>(end_ / kPageBytes + used);
    write_index_page(tail_, name_, staged.subspan(used * kPageBytes, kPageBytes));
    ++used;
    if (tail_.entries.size() == kEntriesPerPage) {
      tail_ = {0, tail_.page, tail_.first + kEntriesPerPage, {}};
    }
  };
  for (const IndexEntry& entry : unsettled_) {
    tail_.entries.push_back(entry);
    if (tail_.entries.size() == kEntriesPerPage) {
      emit();
    }
  }
  if (!tail_.entries.empty()) {
    emit();
  }
  unsettled_.clear();
  return write(staged.first(used * kPageBytes));
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
