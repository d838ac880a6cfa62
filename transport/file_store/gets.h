// The gets of a file store: from what is asked for to verified payloads, each called back once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/block_store.h"
#include "transport/file_store/aligned_buffer.h"
#include "transport/file_store/file_table.h"
#include "transport/file_store/layout.h"

namespace shoal::transport {

class StoreCore;

class Gets {
 public:
  explicit Gets(StoreCore& core);

  // From any thread; the store is not stopped, the mutex is held.
  void add(std::vector<KvWanted> wanted, Instant deadline, BlockStore::Got done);

  // On the loop. What waited for a look at the directory is looked up again.
  void resume();

  // In a lane. The whole record of a block, verified against itself.
  Result<std::vector<std::byte>> read_record(const SegmentName& segment, const IndexEntry& entry);

  // The file is gone: its room on the medium comes back when nobody has it open.
  void close(const SegmentName& name) { files_.close(name); }

  void fail_all();

  // Bytes of records that are being read; under the mutex.
  std::int64_t loading() const { return loading_; }

 private:
  struct Operation {
    std::vector<KvWanted> wanted;
    std::vector<Loaded> loaded;
    std::size_t jobs = 0;  // not back yet
    BlockStore::Got done;
    std::uint64_t look = 0;  // after which what is not visible is not there
  };

  // A record to be read.
  struct Piece {
    std::size_t slot = 0;
    KvWanted wanted;
    BlockPlace place;
    SegmentName segment;
  };

  struct Read {
    Piece piece;
    Loaded loaded;
    bool is_damaged = false;  // whoever asks for it
  };

  void pump();
  bool begin(std::uint64_t id, Operation& operation);
  bool waits_for_look(Operation& operation) const;
  void read_in_lanes(std::uint64_t id, std::vector<Piece> pieces);
  std::vector<Read> read(const std::vector<Piece>& pieces);
  void read(std::span<const Piece> pieces, AlignedBuffer& buffer, std::vector<Read>& results);
  void complete(std::uint64_t id, std::vector<Read> reads);
  void judge(const Read& read);
  void expire(std::uint64_t id);
  std::function<void()> finish(std::uint64_t id);

  AlignedBuffer take_buffer();
  void give_buffer(AlignedBuffer buffer);

  StoreCore& core_;
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, Operation> operations_;
  std::deque<std::uint64_t> waiting_;    // for room among what is loading
  std::vector<std::uint64_t> for_look_;  // for blocks that may turn up
  std::int64_t loading_ = 0;             // bytes

  // Of the lanes.
  FileTable files_;
  std::mutex buffers_mutex_;
  std::vector<AlignedBuffer> buffers_;
};

}  // namespace shoal::transport
