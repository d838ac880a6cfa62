// From the last index page that reads back over full ones; where one is damaged, further back to
// the next that reads.
#include "transport/file_store/segment_reader.h"

#include <algorithm>
#include <optional>

namespace shoal::transport {
namespace {

// What a writer that died may have left behind its last index page: one group.
constexpr std::uint64_t kScanPages =
    static_cast<std::uint64_t>(kKvPayloadMax + 2 * kGroupBytes) / kPageBytes;
constexpr std::uint64_t kScanStep = 64;

class SegmentReader {
 public:
  SegmentReader(FileIo& io, const SegmentName& name) : io_(io), name_(name) {}

  // Whether its header reads.
  Result<bool> open() {
    TRY(file_, io_.open(to_string(name_)));
    TRY(const auto page, read(0, 1));
    TRY(const auto created, read_header_page(page, name_));
    return created.has_value();
  }

  // The last one that reads below page `end`, and not below `floor`.
  Result<std::optional<IndexPage>> last_index(std::uint64_t end, std::uint64_t floor) {
    floor = std::max<std::uint64_t>({floor, end > kScanPages ? end - kScanPages : 0, 1});
    // Nearly always it is the page at the end.
    for (std::uint64_t step = 1; end > floor; step = kScanStep) {
      const std::uint64_t begin = end - std::min(step, end - floor);
      TRY(const auto pages, read(begin, end - begin));
      for (std::uint64_t page = end; page-- > begin;) {
        const auto bytes = pages.subspan((page - begin) * kPageBytes, kPageBytes);
        auto index = read_index_page(bytes, name_, static_cast<std::uint32_t>(page));
        if (index) {
          return *std::move(index);
        }
        broken_ += begins_as_index_page(bytes) ? 1 : 0;
      }
      end = begin;
    }
    return std::nullopt;
  }

  std::int64_t broken() const { return broken_; }

 private:
  Result<std::span<const std::byte>> read(std::uint64_t page, std::uint64_t pages) {
    FileIo::Read read{file_,
                      page * kPageBytes,
                      buffer_.at_least(kScanStep * kPageBytes).first(pages * kPageBytes),
                      {}};
    io_.read({&read, 1});
    TRY_VOID(read.result);
    return read.bytes;
  }

  FileIo& io_;
  const SegmentName name_;
  FileIo::FilePtr file_;
  AlignedBuffer buffer_;
  std::int64_t broken_ = 0;
};

bool is_plausible(const IndexEntry& entry, std::uint32_t index_page) {
  return entry.kind != EntryKind::kBlock || (entry.page >= 1 && entry.pages >= 1 &&
                                             std::uint64_t{entry.page} + entry.pages <= index_page);
}

// Takes the entries of `index` that are before `lowest` and not known. Newest first.
void take(const IndexPage& index, std::uint64_t known, std::uint64_t lowest, SegmentNews& news) {
  for (std::size_t i = index.entries.size(); i-- > 0;) {
    const std::uint64_t number = index.first + i;
    if (number < known || number >= lowest) {
      continue;
    }
    if (is_plausible(index.entries[i], index.page)) {
      news.added.push_back(index.entries[i]);
    } else {
      ++news.damaged;
    }
  }
}

}  // namespace

Result<SegmentNews> read_segment(FileIo& io,
                                 const SegmentName& name,
                                 std::uint64_t bytes,
                                 const SegmentProgress& known) {
  SegmentNews news;
  news.progress = {bytes, known.end, known.entries};
  if (bytes < 2 * kPageBytes) {
    return news;
  }
  SegmentReader reader(io, name);
  TRY(news.has_header, reader.open());
  const std::uint64_t pages = bytes / kPageBytes;
  // A file that did not grow was scanned already; its last page may have been on its way.
  const std::uint64_t floor = bytes == known.bytes ? pages - 1 : known.end / kPageBytes;
  TRY(auto index, reader.last_index(pages, floor));
  news.broken = reader.broken();
  if (!index) {
    return news;
  }
  news.damaged += !news.has_header;  // index pages name their segment themselves
  news.progress.end = (std::uint64_t{index->page} + 1) * kPageBytes;
  news.is_whole = news.progress.end == bytes;
  news.progress.entries = std::max(known.entries, index->first + index->entries.size());
  std::uint64_t lowest = news.progress.entries;
  while (index) {
    take(*index, known.entries, lowest, news);
    lowest = std::min(lowest, index->first);
    if (lowest <= known.entries) {
      break;
    }
    const std::uint64_t before = index->previous == 0 ? index->page : index->previous + 1;
    const std::uint32_t wanted = index->previous;
    TRY(index, reader.last_index(before, 1));
    news.damaged += !index || index->page != wanted;
  }
  news.broken = reader.broken();
  std::reverse(news.added.begin(), news.added.end());
  return news;
}

}  // namespace shoal::transport
