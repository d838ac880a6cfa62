// Whole files are removed where that is allowed, then the drops of what is left are written to a
// segment of this process.
#include "tools/kv_sweep.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unordered_set>

#include "tools/process_ports.h"
#include "transport/file_descriptor.h"
#include "transport/file_store/segment_writer.h"

namespace shoal::tools {
namespace {

using transport::EntryKind;
using transport::IndexEntry;
using transport::SegmentName;

// As for servers: a heartbeat this old is a dead writer's.
constexpr WallMillis kDead = 600'000;
// Written at once.
constexpr std::size_t kBatch = 10'000;

IndexEntry drop_of(const KvViewBlock& block) {
  IndexEntry entry;
  entry.kind = EntryKind::kDrop;
  entry.key = block.entry.key;
  entry.page = block.entry.page;
  entry.dropped = block.segment;
  return entry;
}

// In a segment of this process.
Result<void> write_drops(const KvView& view, const std::vector<KvViewBlock>& blocks) {
  transport::SegmentWriter writer(
      view.io(), view.params().writer, TtlClass::kPinned, std::int64_t{1} << 40);
  for (std::size_t at = 0; at < blocks.size(); at += kBatch) {
    std::vector<IndexEntry> drops;
    for (std::size_t i = at; i < std::min(at + kBatch, blocks.size()); ++i) {
      drops.push_back(drop_of(blocks[i]));
    }
    TRY_VOID(writer.extend(drops, {}, unix_millis_now()));
    TRY_VOID(writer.settle());
  }
  return {};
}

// Whether it may be removed once nothing of it is visible. Without a heartbeat of its own this
// process cannot tell how late it is.
bool is_dead(const KvView& view, IncarnationId writer) {
  const auto now = view.io().facts(transport::heartbeat_name(view.params().writer));
  const auto beat = view.io().facts(transport::heartbeat_name(writer));
  return beat ? now && beat->modified + kDead < now->modified
              : beat.error().code == Code::kNotFound;
}

// What is visible once `dropped` is not, and what is there.
struct Left {
  std::unordered_set<BlockKey> keys;
  std::set<SegmentName> visible;
  std::set<SegmentName> present;
};

Left left_without(const KvView& view, const std::vector<KvViewBlock>& dropped) {
  std::set<std::pair<SegmentName, std::uint32_t>> places;
  for (const KvViewBlock& block : dropped) {
    places.emplace(block.segment, block.entry.page);
  }
  Left left;
  for (const KvViewBlock& block : view.blocks()) {
    if (!places.contains({block.segment, block.entry.page})) {
      left.keys.insert(block.entry.key);
      left.visible.insert(block.segment);
    }
  }
  for (const KvViewSegment& segment : view.segments()) {
    left.present.insert(segment.name);
  }
  return left;
}

// Says something about what is there.
bool matters(const IndexEntry& entry, const Left& left) {
  return (entry.kind == EntryKind::kTouch && left.keys.contains(entry.key)) ||
         (entry.kind == EntryKind::kDrop && left.present.contains(entry.dropped));
}

// Nothing in it is visible or says anything about what is there.
bool is_empty(const KvViewSegment& segment, const Left& left) {
  return segment.damaged == 0 && !segment.entries.empty() && !left.visible.contains(segment.name) &&
         std::none_of(segment.entries.begin(),
                      segment.entries.end(),
                      [&left](const IndexEntry& entry) { return matters(entry, left); });
}

// Bytes of the files that went.
Result<std::int64_t> remove_empty(const KvView& view, Left& left) {
  std::int64_t freed = 0;
  // The second time for segments that held nothing but drops of what was removed.
  for (int pass = 0; pass < 2; ++pass) {
    for (const KvViewSegment& segment : view.segments()) {
      if (left.present.contains(segment.name) && is_empty(segment, left) &&
          is_dead(view, segment.name.writer)) {
        TRY_VOID(view.io().remove(to_string(segment.name)));
        left.present.erase(segment.name);
        freed += segment.bytes;
      }
    }
  }
  return freed;
}

tl::unexpected<Error> no_room(const KvView& view, const std::string& why) {
  return fail(Code::kNoCapacity,
              view.place() + ": no room to note which blocks are taken out (" + why +
                  "); make a few kilobytes free there and do it again");
}

// The room of records in the middle of their files. From here on they read as zeros, which nobody
// takes for a block: so only of what is dropped. Bytes; an errno where one of them keeps its room.
struct Punched {
  std::int64_t bytes = 0;
  int error = 0;
};

Punched punch(const KvView& view, const std::vector<KvViewBlock>& blocks) {
  Punched punched;
  for (const KvViewBlock& block : blocks) {
    const auto path = view.params().directory / to_string(block.segment);
    const transport::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const off_t bytes = off_t{block.entry.pages} * kKvRecordAlign;
    if (file.is_open() && ::fallocate(file.get(),
                                      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      off_t{block.entry.page} * kKvRecordAlign,
                                      bytes) == 0) {
      punched.bytes += bytes;
    } else if (errno != ENOENT) {
      punched.error = errno;
    }
  }
  return punched;
}

// Durable when it returns. What is dropped makes room for saying so, where there is none.
Result<void> note_drops(const KvView& view, const std::vector<KvViewBlock>& blocks) {
  auto written = write_drops(view, blocks);
  if (written || written.error().code != Code::kNoCapacity) {
    return written;
  }
  if (view.params().directory.empty()) {
    return no_room(view, "objects keep theirs");
  }
  if (const Punched punched = punch(view, blocks); punched.bytes == 0) {
    return no_room(view, std::strerror(punched.error));
  }
  return write_drops(view, blocks);
}

}  // namespace

Result<Freed> drop_blocks(const KvView& view, const std::vector<KvViewBlock>& blocks) {
  const std::string heartbeat = transport::heartbeat_name(view.params().writer);
  // Empty: it needs no room on a full disk.
  if (const auto beat = view.io().replace(heartbeat, "");
      !beat && beat.error().code != Code::kNoCapacity) {
    return tl::unexpected(beat.error());
  }
  Left left = left_without(view, blocks);
  Freed freed;
  TRY(freed.files, remove_empty(view, left));
  std::vector<KvViewBlock> remaining = blocks;
  std::erase_if(remaining, [&left](const KvViewBlock& block) {
    return !left.present.contains(block.segment);
  });
  const auto noted = note_drops(view, remaining);
  static_cast<void>(view.io().remove(heartbeat));
  TRY_VOID(noted);
  if (!view.params().directory.empty()) {
    freed.inside = punch(view, remaining).bytes;
  }
  return freed;
}

}  // namespace shoal::tools
