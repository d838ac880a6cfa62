// How much a stored block is worth: uses to come per second, times what a use saves (computing its
// rows after those before them), divided by the pages it takes. The least worth goes first.
//
// What is to come is learned (reuse_model.h) from a sample of all blocks, by name, also of blocks
// that were forgotten meanwhile: else nothing would be learned beyond the age at which blocks are
// forgotten. A block of the sample that comes back gets its past back.
//
// What is learned decides only while it is ahead: of the sample it is known at any moment which
// blocks a store would have that evicts by what is learned, and which one that evicts what was
// used longest ago (LRU). As long as the first does not hit more by some whole sequences, the store
// is the second. So what misleads the model costs a few sequences, not the hit rate.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "actors/policy/cost_model.h"
#include "actors/policy/reuse_model.h"
#include "schemas/block_use.h"
#include "schemas/units.h"

namespace shoal {

// Of a store, whichever is less.
struct StoreRoom {
  std::int64_t blocks = std::numeric_limits<std::int64_t>::max();
  std::int64_t pages = std::numeric_limits<std::int64_t>::max();
};

class KvWorth {
 public:
  KvWorth(const CostModel& cost, const StoreRoom& room);

  // Larger is kept longer, at one moment. Pinned blocks go last.
  std::int64_t worth(const BlockUse& use, WallMillis now) const;

  // Learns from the writing or the use of a block; `name`: any 64 even bits of its key. Returns
  // its use, with its past where it was written before. The first block says how many pages a
  // block takes.
  BlockUse seen(std::uint64_t name, const BlockUse& use, bool is_written);

  // What is learned hits more than LRU, and decides.
  bool is_ahead() const { return is_ahead_; }

  Bytes bytes() const;

 private:
  struct Record {
    std::uint64_t name = 0;
    std::uint32_t last_use = 0;  // eighths of a second since began_, from 1; 0: free
    std::uint16_t kind = 0;
    std::uint16_t uses : 14 = 0;
    std::uint16_t in_lru : 1 = 0;  // LRU would have it
    std::uint16_t in_own : 1 = 0;  // a store that evicts by what is learned would have it
  };

  static_assert(sizeof(Record) == 16);

  static WallMillis waited(const Record& record, std::uint32_t now);

  void begin(const BlockUse& first);
  std::uint32_t ticks(WallMillis time) const;
  Record& place_of(std::uint64_t name, std::uint32_t now);
  BlockUse with_past(const BlockUse& use, bool is_written, const Record& record, std::uint32_t now);
  void learn(std::uint32_t now);
  void compare(const Record& record);
  void keep(Record& record, std::uint32_t now);
  template <typename IsIn, typename Worth>
  std::vector<Record*> least(const IsIn& is_in, const Worth& worth);

  std::int64_t cost_growth_;  // of a block's rows from one block to the next, 2^-30 of the first's
  StoreRoom room_;
  std::uint64_t every_ = 1;  // block of the sample, a power of two
  std::int64_t places_ = 1;  // room, in blocks of the sample
  std::vector<Record> sample_;
  ReuseModel model_;
  WallMillis began_ = 0;
  std::uint64_t sequences_ = 0;
  std::uint64_t sampled_ = 0;
  std::uint64_t learn_at_ = 0;
  double sequence_ = 1;      // blocks of the sample that are used together, as a rule
  std::int64_t in_lru_ = 0;  // records
  std::int64_t in_own_ = 0;
  double lead_ = 0;  // of what is learned before LRU, in blocks hit
  bool is_ahead_ = false;
};

}  // namespace shoal
