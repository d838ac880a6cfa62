// The memory of a block store: which blocks are visible, where they lie, and which is worth least.
//
// Blocks form trees (a block's parent is the one before it in its sequence). A block was used
// no earlier than any behind it and is forgotten only after those, so of every sequence the first
// blocks are there and the longest hit is found by bisection. Of a key 128 bits are kept: two of
// 4e11 keys agree in them with probability 2e-16, and then read_kv_record() checks the whole key.
//
// Memory: 48 bytes a block, 10 to 11.3 in the hash table, 4 to 4.5 for one with none behind it: 64
// at most. Not thread-safe: its store locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "schemas/block_key.h"
#include "schemas/block_use.h"
#include "schemas/kv_record.h"
#include "schemas/units.h"
#include "transport/block_slots.h"

namespace shoal::transport {

// What a visible block's header says, as far as a hit needs it.
struct BlockInfo {
  std::uint32_t crc = 0;  // of the payload
  Provenance provenance = Provenance::kExact;
  TtlClass ttl = TtlClass::kChat;
  WallMillis last_use = 0;  // writing it is one
};

// Where a record lies: the meaning is the store's.
struct BlockPlace {
  std::uint32_t segment = 0;
  std::uint32_t page = 0;  // of kKvRecordAlign bytes, from the segment's start
  std::uint32_t pages = 0;
};

// A block that an index forgot: where its record was.
struct Forgotten : BlockPlace {
  BlockKey key;  // as much as the index keeps of it, then zeros: names it in find() and the like
};

// Decides for an index; policies are in actors/policy.
struct BlockPolicy {
  // Larger is kept longer.
  std::function<std::int64_t(const BlockUse& use, WallMillis now)> worth;
  // Of every writing and use, by 64 bits of the key. Returns the use with what is known of its
  // past, when it was forgotten before. May be empty.
  std::function<BlockUse(std::uint64_t name, const BlockUse& use, bool is_written)> seen;
};

class BlockIndex {
 public:
  struct Found {
    BlockInfo info;
    BlockPlace place;
  };

  // As its record's header says.
  struct Written {
    BlockKey key;
    BlockKey parent;
    std::uint32_t number = 0;
    BlockInfo info;
    BlockPlace place;
    std::uint32_t turn = 0;  // blocks of its sequence that are written together; 0: not known
  };

  // `now` is where its clock begins: it tells eighths of a second, for 8 years before and after.
  BlockIndex(BlockPolicy policy, WallMillis now);

  std::optional<Found> find(const BlockKey& key) const;

  // The same, but for what expire() would forget now, whether or not it has come to it.
  std::optional<Found> find_live(const BlockKey& key,
                                 const std::array<std::int64_t, kTtlClasses>& hours,
                                 WallMillis now) const;

  // In any order: a parent may come after its children. False: it is visible already, or what is
  // behind it says another number.
  bool insert(const Written& block, WallMillis now);

  // Of a visible block.
  std::optional<BlockUse> use(const BlockKey& key) const;

  // Another record of a visible block.
  bool replace(const BlockKey& key, const BlockInfo& info, const BlockPlace& place);

  // Another record of a visible block was written then: it lives from there on.
  void renew(const BlockKey& key, WallMillis when);

  // Where its record was. Blocks behind it stay, out of reach until it is inserted again.
  std::optional<BlockPlace> erase(const BlockKey& key);

  // Used together with all blocks before it, when `turn` new blocks are to be written behind.
  void touch(const BlockKey& leaf, std::uint32_t turn, WallMillis now);

  // A lease: until then, or until as many releases as holds, it and all blocks before it do not
  // expire, and they are evicted only when nothing else is left.
  void hold(const BlockKey& leaf, WallMillis until, WallMillis now);
  void release(const BlockKey& leaf);

  std::int64_t held() const { return static_cast<std::int64_t>(held_.size()); }

  // How many leading keys are visible, by bisection.
  std::size_t longest_hit(std::span<const BlockKey> keys, bool exact_only) const;

  // Forgets the blocks worth least, leaves first; returns where their records were. A call looks at
  // up to kLooks leaves, all or a sample, so call it for many blocks at once.
  std::vector<Forgotten> evict(std::int64_t count, WallMillis now);

  // Forgets leaves that were not used for as long as their class allows. Looks at as many as asked
  // for and goes on from there at the next call.
  std::vector<Forgotten> expire(const std::array<std::int64_t, kTtlClasses>& hours,
                                std::int64_t looks,
                                WallMillis now);

  // Forgets all blocks of a segment, returns how many. Looks at every entry: about 10 ms a million.
  std::int64_t drop_segment(std::uint32_t segment);

  std::int64_t size() const { return visible_; }

  Bytes bytes() const;

  static constexpr std::size_t kLooks = 4'096;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  static constexpr std::size_t kKeyKept = 16;

  struct Entry {
    std::array<std::byte, kKeyKept> key{};
    std::uint32_t parent = kNone;
    std::uint32_t link = 0;  // a leaf's place in leaves_; else how many children; free: the next
    std::uint32_t last_use = 0;  // ticks
    std::uint32_t segment = 0;
    std::uint32_t page = 0;
    std::uint32_t crc = 0;
    std::uint32_t number : 22 = 0;
    std::uint32_t idle : 6 = 0;  // octave of ticks
    std::uint32_t ttl : 2 = 0;
    std::uint32_t provenance : 1 = 0;
    std::uint32_t is_visible : 1 = 0;  // else it only holds together what is behind it
    std::uint32_t pages : 20 = 0;
    std::uint32_t uses : 5 = 0;
    std::uint32_t turn : 5 = 0;  // octave
    std::uint32_t is_leaf : 1 = 0;
    std::uint32_t is_fresh : 1 = 0;  // not used since it was written
  };

  static_assert(sizeof(Entry) == 48);
  static constexpr std::size_t kChunk = 1'024;

  struct Candidate {
    std::int64_t worth = 0;
    std::uint32_t last_use = 0;
    std::uint32_t number = 0;
    std::uint32_t entry = 0;
  };

  struct Hold {
    std::int64_t count = 0;
    WallMillis until = 0;
  };

  static std::uint32_t tag_of(const std::byte* key);
  static bool goes_later(const Candidate& a, const Candidate& b);

  Entry& at(std::uint32_t entry) { return chunks_[entry / kChunk][entry % kChunk]; }

  const Entry& at(std::uint32_t entry) const { return chunks_[entry / kChunk][entry % kChunk]; }

  std::uint32_t entry_of(const BlockKey& key) const;
  std::uint32_t add(const BlockKey& key);
  static void set_record(Entry& entry, const BlockInfo& info, const BlockPlace& place);
  void link_parent(std::uint32_t entry, const BlockKey& parent, std::uint32_t number);

  void add_leaf(std::uint32_t entry);
  void remove_leaf(std::uint32_t entry);

  std::uint32_t ticks(WallMillis time) const;
  WallMillis time_of(std::uint32_t ticks) const;
  BlockUse use_of(const Entry& entry) const;
  Found found_of(const Entry& entry) const;
  void begin_use(Entry& entry, std::uint32_t turn, std::uint32_t now);
  void report(Entry& entry, bool is_written);

  BlockPlace hide(Entry& entry);
  std::uint32_t free(std::uint32_t entry);
  bool is_held(std::uint32_t entry, WallMillis now) const;
  bool is_leased(std::uint32_t entry, WallMillis now) const;
  bool has_expired(const Entry& entry,
                   const std::array<std::int64_t, kTtlClasses>& hours,
                   WallMillis now) const;
  void raise(std::uint32_t entry, std::uint32_t last_use);
  std::uint32_t forget(std::uint32_t leaf, std::vector<Forgotten>& forgotten);
  Candidate candidate(std::uint32_t leaf, WallMillis now) const;
  std::vector<Candidate> candidates(WallMillis now);
  void evict_some(std::size_t count, WallMillis now, std::vector<Forgotten>& forgotten);

  BlockPolicy policy_;
  WallMillis clock_;  // time of tick 0
  BlockSlots slots_;
  std::vector<std::unique_ptr<Entry[]>> chunks_;
  std::uint32_t entries_ = 0;  // of all chunks, free ones too
  std::uint32_t free_ = kNone;
  std::vector<std::uint32_t> leaves_;
  std::unordered_map<std::uint32_t, Hold> held_;  // by entry
  std::int64_t visible_ = 0;
  std::size_t cursor_ = 0;     // of expire()
  std::uint64_t sampled_ = 0;  // counts draws
};

// How many of `count` keys are hit, when those before a hit are hits.
std::size_t longest_hit(std::size_t count, const std::function<bool(std::size_t)>& is_hit);

}  // namespace shoal::transport
