// The files of a store as bytes: names, header page and index pages of segments.
// transport/README.md has them byte by byte.
//
// A segment is append-only and has one writer. An index page holds what was added since the last
// full index page before it, so the page at the end, followed back over full ones, is everything.
// Every page names its segment and its own place: a page that was copied elsewhere does not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/block_key.h"
#include "schemas/ids.h"
#include "schemas/kv_record.h"
#include "schemas/result.h"
#include "transport/block_index.h"

namespace shoal::transport {

inline constexpr std::size_t kPageBytes = static_cast<std::size_t>(kKvRecordAlign);
inline constexpr std::size_t kEntriesPerPage = 42;
// Records that are made durable together, unless a single one is larger.
inline constexpr std::int64_t kGroupBytes = std::int64_t{16} << 20;

struct SegmentName {
  IncarnationId writer;
  TtlClass ttl = TtlClass::kChat;
  std::uint32_t number = 0;

  friend auto operator<=>(const SegmentName&, const SegmentName&) = default;
};

std::string_view name_of(TtlClass ttl);

// "00c0ffee00c0ffee-chat-000017.kv".
std::string to_string(const SegmentName& name);
std::optional<SegmentName> parse_segment_name(std::string_view file);

// "00c0ffee00c0ffee.alive": touched by the writer for as long as it lives.
std::string heartbeat_name(IncarnationId writer);
std::optional<IncarnationId> parse_heartbeat_name(std::string_view file);

// "00c0ffee00c0ffee.probe": there while its writer looks whether there is room.
std::string probe_name(IncarnationId writer);
std::optional<IncarnationId> parse_probe_name(std::string_view file);

enum class EntryKind : std::uint8_t { kBlock = 1, kTouch = 2, kDrop = 3 };

struct IndexEntry {
  EntryKind kind = EntryKind::kBlock;
  BlockKey key;
  WallMillis time = 0;     // of a block: its last use when it was to be written
  std::uint32_t turn = 0;  // of a block or touch: blocks its sequence wrote then; 0: not known
  // Of a block; a drop names the place of the record that is gone.
  std::uint32_t page = 0;
  std::uint32_t pages = 0;
  // Of a block.
  BlockKey parent;
  std::uint32_t number = 0;
  std::uint32_t crc = 0;
  Provenance provenance = Provenance::kExact;
  // Of a drop: where the record was.
  SegmentName dropped;
};

struct IndexPage {
  std::uint32_t page = 0;      // its own place, in pages from the segment's start
  std::uint32_t previous = 0;  // the last full index page before it; 0: none
  std::uint64_t first = 0;     // number of its first entry among all of the segment
  std::vector<IndexEntry> entries;
};

void write_header_page(const SegmentName& name, WallMillis created, std::span<std::byte> page);
// Nothing: it does not read, as after a crash in a segment's first group. kCorrupt: it is another
// segment's.
Result<std::optional<WallMillis>> read_header_page(std::span<const std::byte> page,
                                                   const SegmentName& name);

void write_index_page(const IndexPage& index, const SegmentName& name, std::span<std::byte> page);
// Begins like an index page, whatever the rest of it is.
bool begins_as_index_page(std::span<const std::byte> page);
// kCorrupt: not an index page, or one of another place.
Result<IndexPage> read_index_page(std::span<const std::byte> page,
                                  const SegmentName& name,
                                  std::uint32_t at);

}  // namespace shoal::transport
