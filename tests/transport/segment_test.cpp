// Segments: what was written group by group is read from the end, whenever and however often.
#include <algorithm>
#include <doctest/doctest.h>
#include <random>

#include "tests/transport/block_samples.h"
#include "transport/file_store/segment_reader.h"
#include "transport/file_store/segment_writer.h"
#include "transport/sim/sim_disk.h"

namespace {

using namespace shoal;
using namespace shoal::transport;

const SegmentName kName{IncarnationId{0xABCDEF}, TtlClass::kAgent, 0};

struct SegmentBed {
  SimDisk disk{[] { return WallMillis{1}; }};
  std::shared_ptr<FileIo> io = disk.open();
  SegmentWriter writer{*io, kName.writer, kName.ttl, std::int64_t{1} << 40};
  std::vector<IndexEntry> written;

  // Blocks of a page each, touches between them.
  void append(std::size_t count) {
    extend(count);
    REQUIRE(writer.settle().has_value());
  }

  void extend(std::size_t count) {
    std::vector<IndexEntry> entries(count);
    std::size_t pages = 0;
    for (std::size_t i = 0; i < count; ++i) {
      entries[i].key.bytes[0] = static_cast<std::byte>(written.size() + i);
      entries[i].key.bytes[1] = static_cast<std::byte>((written.size() + i) / 256);
      entries[i].time = static_cast<WallMillis>(written.size() + i);
      if (i % 3 == 2) {
        entries[i].kind = EntryKind::kTouch;
      } else {
        entries[i].pages = 1;
        ++pages;
      }
    }
    const std::vector<std::byte> records(pages * kPageBytes, std::byte{7});
    REQUIRE(writer.extend(entries, records, 5).has_value());
    written.insert(written.end(), entries.begin(), entries.end());
  }

  std::vector<std::byte>& file() { return disk.content(to_string(kName)); }

  SegmentNews read(const SegmentProgress& known) {
    auto news = read_segment(*io, kName, file().size(), known);
    REQUIRE(news.has_value());
    return *std::move(news);
  }
};

bool is_same(const IndexEntry& a, const IndexEntry& b) {
  return a.kind == b.kind && a.key == b.key && a.time == b.time && a.page == b.page &&
         a.pages == b.pages;
}

}  // namespace

TEST_CASE("a segment's name and a heartbeat's are read as they are written") {
  for (const TtlClass ttl : {TtlClass::kAgent, TtlClass::kChat, TtlClass::kPinned}) {
    for (const std::uint32_t number : {0U, 17U, 1'000'000U, 4'294'967'295U}) {
      const SegmentName name{IncarnationId{0xFFFFFFFFFFFFFFFF - number}, ttl, number};
      CHECK(parse_segment_name(to_string(name)) == name);
    }
  }
  CHECK(parse_heartbeat_name(heartbeat_name(IncarnationId{42})) == IncarnationId{42});
  for (const char* other : {"",
                            "shoal-kv",
                            ".kv",
                            "-chat-000000.kv",
                            "000000000000000g-chat-000000.kv",
                            "0000000000000001-chats-000000.kv",
                            "0000000000000001-chat-.kv",
                            "0000000000000001-chat-1x.kv",
                            "0000000000000001-chat-99999999999.kv",
                            "0000000000000001-chat-000000.kv.new"}) {
    CHECK(!parse_segment_name(other).has_value());
    CHECK(!parse_heartbeat_name(other).has_value());
  }
}

TEST_CASE("every entry is read once, in order, however groups and looks fall") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    SegmentBed bed;
    SegmentProgress known;
    std::vector<IndexEntry> read;
    for (int i = 0; i < 25; ++i) {
      bed.append(1 + random() % (seed % 2 == 0 ? 5 : 130));
      if (random() % 3 == 0) {
        const SegmentNews news = bed.read(known);
        CHECK(news.damaged == 0);
        known = news.progress;
        read.insert(read.end(), news.added.begin(), news.added.end());
        CHECK(read.size() == bed.written.size());
        CHECK(bed.read(known).added.empty());
      }
    }
    const SegmentNews all = bed.read({});
    REQUIRE(all.added.size() == bed.written.size());
    bool same = true;
    for (std::size_t i = 0; i < read.size(); ++i) {
      same = same && is_same(read[i], bed.written[i]) && is_same(all.added[i], bed.written[i]);
    }
    CHECK(same);
  }
}

TEST_CASE("a look in the middle of a group sees all groups before it, and the group later") {
  SegmentBed bed;
  bed.append(50);
  const std::size_t before = bed.file().size();
  bed.append(50);
  const std::vector<std::byte> whole = bed.file();
  for (std::size_t size = before; size < whole.size(); size += 3 * kPageBytes / 2) {
    bed.file().assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const SegmentNews early = bed.read({});
    CHECK(early.added.size() >= 50);
    CHECK(early.added.size() < 100);
    bed.file() = whole;
    const SegmentNews late = bed.read(early.progress);
    CHECK(early.added.size() + late.added.size() == 100);
    CHECK(late.damaged == 0);
  }
}

TEST_CASE("a last page that was on its way is read when it is there, though the size is the same") {
  SegmentBed bed;
  bed.append(10);
  const std::byte right = bed.file().back();
  bed.file().back() ^= std::byte{1};
  const SegmentNews early = bed.read({});
  CHECK(early.added.empty());
  bed.file().back() = right;
  CHECK(bed.read(early.progress).added.size() == 10);
}

TEST_CASE("an index page of another segment or from another place does not read") {
  std::vector<std::byte> page(kPageBytes);
  IndexPage index;
  index.page = 9;
  index.previous = 4;
  index.first = 84;
  index.entries.resize(kEntriesPerPage);
  write_index_page(index, kName, page);
  CHECK(read_index_page(page, kName, 9)->entries.size() == kEntriesPerPage);
  CHECK(!read_index_page(page, kName, 10).has_value());
  for (SegmentName other : {SegmentName{IncarnationId{1}, kName.ttl, kName.number},
                            SegmentName{kName.writer, TtlClass::kChat, kName.number},
                            SegmentName{kName.writer, kName.ttl, 1}}) {
    CHECK(!read_index_page(page, other, 9).has_value());
  }
  for (std::size_t at = 0; at < page.size(); ++at) {
    page[at] ^= std::byte{16};
    if (read_index_page(page, kName, 9).has_value()) {
      FAIL("byte " << at << " changed was not noticed");
    }
    page[at] ^= std::byte{16};
  }
}

TEST_CASE("a group is durable with the next one's records, and a reader finds it at the end") {
  SegmentBed bed;
  bed.extend(5);
  CHECK(bed.read({}).added.empty());
  bed.extend(50);
  CHECK(bed.read({}).added.size() == 5);
  bed.disk.lose_power([](std::uint64_t) { return std::uint64_t{1}; });
  CHECK(bed.read({}).added.size() == 5);
  bed.extend(3);
  CHECK(bed.read({}).added.size() == 55);
  REQUIRE(bed.writer.settle().has_value());
  const SegmentNews news = bed.read({});
  REQUIRE(news.added.size() == 58);
  CHECK(std::equal(news.added.begin(), news.added.end(), bed.written.begin(), is_same));
  CHECK(news.progress.end == bed.file().size());
}

TEST_CASE("after a failed group the next one begins a new segment, and the cut one still reads") {
  bool fails = false;
  SimDisk disk([] { return WallMillis{1}; },
               [&fails](DiskCall call) {
                 return fails && call == DiskCall::kSync
                            ? std::optional(Error{Code::kUnavailable, "I/O error"})
                            : std::nullopt;
               });
  const auto io = disk.open();
  SegmentWriter writer(*io, kName.writer, kName.ttl, std::int64_t{1} << 40);
  std::vector<IndexEntry> entries(3);
  for (IndexEntry& entry : entries) {
    entry.pages = 1;
  }
  const std::vector<std::byte> records(3 * kPageBytes);
  REQUIRE(writer.extend(entries, records, 1).has_value());
  REQUIRE(writer.settle().has_value());
  const std::size_t size = disk.content(to_string(kName)).size();
  fails = true;
  CHECK(!writer.extend(entries, records, 1).has_value());
  fails = false;
  CHECK(disk.content(to_string(kName)).size() == size);
  CHECK(writer.extend(entries, records, 1)->segment.number == 1);
  CHECK(read_segment(*io, kName, size, {})->added.size() == 3);
}
