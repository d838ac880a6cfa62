// Drops are written to a segment of this process, then whole files are removed where that is
// allowed.
#include "tools/kv_sweep.h"

#include <algorithm>
#include <map>
#include <set>

#include "tools/process_ports.h"
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

// The segment that names them.
Result<std::optional<SegmentName>> write_drops(const KvView& view,
                                               const std::vector<KvViewBlock>& blocks) {
  transport::SegmentWriter writer(
      view.io(), view.params().writer, TtlClass::kPinned, std::int64_t{1} << 40);
  std::optional<SegmentName> segment;
  for (std::size_t at = 0; at < blocks.size(); at += kBatch) {
    std::vector<IndexEntry> drops;
    for (std::size_t i = at; i < std::min(at + kBatch, blocks.size()); ++i) {
      drops.push_back(drop_of(blocks[i]));
    }
    TRY_VOID(writer.extend(drops, {}, unix_millis_now()));
    TRY(const auto appended, writer.settle());
    segment = appended.segment;
  }
  return segment;
}

// Whether it may be removed once nothing of it is visible.
bool is_dead(const KvView& view, IncarnationId writer) {
  const auto now = view.io().facts(transport::heartbeat_name(view.params().writer));
  const auto beat = view.io().facts(transport::heartbeat_name(writer));
  return beat ? now && beat->modified + kDead < now->modified
              : beat.error().code == Code::kNotFound;
}

// What is visible once `dropped` is not, and what is there.
struct Left {
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
      left.visible.insert(block.segment);
    }
  }
  for (const KvViewSegment& segment : view.segments()) {
    left.present.insert(segment.name);
  }
  return left;
}

// Nothing in it is visible or says anything about what is there.
bool is_empty(const KvViewSegment& segment, const Left& left) {
  return segment.damaged == 0 && !segment.entries.empty() && !left.visible.contains(segment.name) &&
         std::all_of(segment.entries.begin(), segment.entries.end(), [&](const IndexEntry& entry) {
           return entry.kind == EntryKind::kBlock ||
                  (entry.kind == EntryKind::kDrop && !left.present.contains(entry.dropped));
         });
}

}  // namespace

Result<std::int64_t> drop_blocks(const KvView& view, const std::vector<KvViewBlock>& blocks) {
  const std::string heartbeat = transport::heartbeat_name(view.params().writer);
  TRY_VOID(view.io().replace(heartbeat, "shoal kv\n"));
  TRY(const std::optional<SegmentName> drops, write_drops(view, blocks));
  Left left = left_without(view, blocks);
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
  const bool all_gone = std::none_of(blocks.begin(), blocks.end(), [&](const KvViewBlock& block) {
    return left.present.contains(block.segment);
  });
  if (drops && all_gone) {
    TRY_VOID(view.io().remove(to_string(*drops)));
  }
  TRY_VOID(view.io().remove(heartbeat));
  return freed;
}

}  // namespace shoal::tools
