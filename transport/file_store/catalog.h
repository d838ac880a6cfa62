// What a store knows: the segments of its directory, and the blocks in them that are visible. Not
// thread-safe: its store locks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "transport/block_store_params.h"
#include "transport/file_store/layout.h"
#include "transport/file_store/segment_reader.h"

namespace shoal::transport {

struct Segment {
  SegmentName name;
  SegmentProgress progress;
  bool is_own = false;
  bool is_open = true;      // its writer may add to it
  bool is_gone = false;     // the file is not there any more
  std::int64_t blocks = 0;  // visible
  std::int64_t pages = 0;   // of those
  bool is_damaged = false;
  bool is_cut = false;
  std::optional<Instant> empty_since;  // nothing of it is visible
  // What it says of records elsewhere:
  WallMillis last_touch = 0;      // the latest touch in it; 0: none
  std::set<std::uint32_t> drops;  // segments of which it drops records
  // Pages where a record begins that was dropped: a drop may be read before its block.
  std::vector<bool> dropped;
};

class Catalog {
 public:
  struct Found {
    BlockInfo info;
    BlockPlace place;
    SegmentName segment;
  };

  explicit Catalog(const BlockStoreParams& params)
      : params_(params),
        index_(params.policy, params.wall()) {}

  std::optional<Found> find(const BlockKey& key) const;
  // Nothing where it has expired, whether or not expire() has come to it.
  std::optional<Found> find_live(const BlockKey& key) const;

  std::optional<BlockUse> use(const BlockKey& key) const { return index_.use(key); }

  // The segment's number here; made if unknown.
  std::uint32_t segment(const SegmentName& name);

  // Of one that is known.
  Segment& at(std::uint32_t id) { return segments_.at(id); }

  const std::map<std::uint32_t, Segment>& segments() const { return segments_; }

  // The file is not there any more, or never was.
  bool is_gone(std::uint32_t id) const;
  bool is_gone(const SegmentName& name) const;

  // What a segment's index pages say, in their order. Touches count with the next settle(): their
  // blocks may be in segments that were not read yet.
  void apply(std::uint32_t id, std::span<const IndexEntry> entries);
  void settle();

  // The same for what this process wrote, and did before it was written.
  void note(std::uint32_t id, const IndexEntry& entry);

  // One block that is in `place` now, by an entry that is durable. Where the block was if an exact
  // record took a bounded one's place.
  std::optional<BlockPlace> add(const IndexEntry& entry, std::uint32_t id);
  // A block that was copied. False: it is not where it was any more.
  bool move(const BlockKey& key, const BlockPlace& from, const BlockPlace& to);

  void hold(const BlockKey& leaf, WallMillis until, WallMillis now) {
    index_.hold(leaf, until, now);
  }

  void release(const BlockKey& leaf) { index_.release(leaf); }

  std::int64_t held() const { return index_.held(); }

  void touch(const BlockKey& leaf, std::uint32_t turn, WallMillis when) {
    index_.touch(leaf, turn, when);
  }

  // Where it was; nothing: it was not there.
  std::optional<BlockPlace> forget(const BlockKey& key);
  // One that has expired, so that it may be written again. False: it was not there, or has not.
  bool forget_expired(const BlockKey& key);
  // Only if it is still there.
  bool forget_at(const BlockKey& key, const BlockPlace& place);
  // Nothing of it is visible any more.
  void set_gone(std::uint32_t id);
  // Gone ones are not known any more, but for those that somebody is busy with. Their numbers are
  // not given again.
  void forget_gone(const std::function<bool(std::uint32_t)>& is_busy);

  // What is older than its class allows, of a part of all; how many.
  std::int64_t expire(WallMillis now);
  // The least valuable until these ceilings are kept.
  std::vector<Forgotten> evict(WallMillis now, Bytes bytes, std::int64_t blocks);

  std::int64_t blocks() const { return blocks_; }

  Bytes bytes() const { return Bytes(pages_ * kKvRecordAlign); }

  // Of all files.
  Bytes medium() const;

  Bytes memory() const { return index_.bytes(); }

 private:
  Found named(const BlockIndex::Found& found) const;
  bool is_copy(const BlockIndex::Found& old, const BlockInfo& info) const;
  std::optional<std::uint32_t> dropped_from(const IndexEntry& entry);
  void drop(const IndexEntry& entry);
  static void set_dropped(Segment& segment, std::uint32_t page);
  void count(const BlockPlace& place, std::int64_t sign);

  const BlockStoreParams& params_;
  BlockIndex index_;
  std::map<std::uint32_t, Segment> segments_;
  std::uint32_t next_ = 0;
  std::map<SegmentName, std::uint32_t> ids_;
  std::vector<IndexEntry> touches_;
  std::int64_t blocks_ = 0;
  std::int64_t pages_ = 0;
};

}  // namespace shoal::transport
