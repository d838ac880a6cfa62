// The puts of a file store: group commit. What waits is written together, made durable, and only
// then visible and acknowledged. Touches and drops ride along.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/block_store.h"
#include "transport/file_store/aligned_buffer.h"
#include "transport/file_store/layout.h"
#include "transport/file_store/segment_writer.h"

namespace shoal::transport {

class StoreCore;

// Calls to be made once the mutex is not held any more.
using Calls = std::vector<std::function<void()>>;

class Puts {
 public:
  explicit Puts(StoreCore& core);

  // From any thread; the store is not stopped, the mutex is held.
  void add(std::vector<std::vector<std::byte>> records, BlockStore::Stored done);

  // The mutex is held. To be written with the next group or flush.
  void note_touch(TtlClass ttl, const BlockKey& leaf, std::uint32_t turn, WallMillis when);
  void note_drop(TtlClass ttl, const BlockKey& key, const SegmentName& segment, std::uint32_t page);

  // The mutex is held. Writes a verified record once more; its block moves there.
  void copy(std::vector<std::byte> record, const IndexEntry& entry, const BlockPlace& from);

  // The mutex is held. Notes of this moment are durable once is_durable() says so of the ticket.
  std::uint64_t ticket(TtlClass ttl) const;
  bool is_durable(TtlClass ttl, std::uint64_t ticket) const;

  // The mutex is held. The class's next group begins a new segment. False: groups are being
  // written.
  bool close(TtlClass ttl);

  // On the loop. Notes are written now, also where no record is.
  void flush();

  // On the loop. Writes what waits, as far as it may now.
  void pump();

  std::int64_t queued() const { return queued_; }

  // The mutex is held. Groups are on their way to the medium.
  bool is_writing() const { return writing_ > 0; }

  void fail_all();

 private:
  struct Slot {
    std::uint64_t operation = 0;
    std::size_t at = 0;
  };

  // A record on its way, and who waits for it.
  struct Block {
    std::vector<std::byte> record;
    IndexEntry entry;
    std::vector<Slot> waiters;
    std::optional<BlockPlace> copied_from;
  };

  struct Operation {
    std::vector<std::optional<Result<void>>> results;
    std::size_t left = 0;
    BlockStore::Stored done;
  };

  struct Queue {
    std::deque<std::shared_ptr<Block>> blocks;
    std::int64_t bytes = 0;  // of those
    std::unordered_map<BlockKey, IndexEntry> touches;
    std::vector<IndexEntry> drops;
    std::uint64_t begun = 0;  // groups
    std::uint64_t done = 0;   // the last of those whose notes, and all before, are durable
    bool has_failed_notes = false;

    bool has_notes() const { return !touches.empty() || !drops.empty(); }
  };

  // What is written together. Blocks come first among the entries.
  struct Group {
    TtlClass ttl = TtlClass::kChat;
    std::uint64_t number = 0;
    WallMillis now = 0;
    std::vector<std::shared_ptr<Block>> blocks;
    std::vector<IndexEntry> notes;
    std::vector<Result<void>> verified;  // of the blocks
    std::vector<IndexEntry> entries;     // of those that verified, then the notes
    AlignedBuffer room;
    std::span<const std::byte> records;  // of the entries, in `room`
    // Nothing: there was nothing to write.
    Result<std::optional<SegmentWriter::Appended>> appended = std::nullopt;
  };

  using GroupPtr = std::shared_ptr<Group>;
  using Groups = std::vector<GroupPtr>;

  // Of a class, in the writing lane.
  struct Writing {
    explicit Writing(SegmentWriter writer) : writer(std::move(writer)) {}

    SegmentWriter writer;
    Groups unsettled;  // written, and their index is not
  };

  static std::int64_t bytes_of(const Group& group);
  Result<bool> admit(std::vector<std::byte>& record, std::uint32_t turn, Slot slot);
  bool has_waiting() const;
  bool admits_group() const;
  void add(Queue& queue, std::shared_ptr<Block> block);
  std::optional<TtlClass> next_class();
  GroupPtr gather(TtlClass ttl);
  void stage(Group& group);
  void write(const GroupPtr& group);
  Result<void> extend(Writing& writing, Group& group);
  void finish(Groups groups, const Result<std::optional<SegmentWriter::Appended>>& appended);
  AlignedBuffer take_room(std::size_t bytes);
  void give_room(AlignedBuffer room);
  void complete(const GroupPtr& group);
  void note_again(const Group& group);
  void note_done(const Group& group);
  void settle(const std::shared_ptr<Block>& block, const Result<void>& result, Calls& calls);
  void store(const Block& block, std::uint32_t segment);
  void refuse_all(const Error& error, Calls& calls);
  void answer(Slot slot, const Result<void>& result, Calls& calls);
  void end(std::uint64_t id, const Error& unanswered, Calls& calls);
  void expire(std::uint64_t id);

  StoreCore& core_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, Operation> operations_;
  std::array<Queue, kTtlClasses> queues_;
  std::unordered_map<BlockKey, std::shared_ptr<Block>> on_the_way_;  // by key, the last one
  std::int64_t queued_ = 0;                                          // bytes
  std::size_t turn_ = 0;                                             // of the classes
  int writing_ = 0;                                                  // groups in the lanes
  bool must_flush_ = false;

  // Of the writing lane, and of close() while that does not write.
  std::array<Writing, kTtlClasses> written_;
  bool is_announced_ = false;
  std::array<std::atomic<int>, kTtlClasses> coming_{};  // groups that this lane has not begun

  std::mutex rooms_mutex_;
  std::vector<AlignedBuffer> rooms_;  // of kGroupBytes, for groups to come
};

}  // namespace shoal::transport
