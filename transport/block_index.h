// The memory of a block store: which blocks are visible, where they lie, and which is worth least.
//
// Blocks form trees (a block's parent is the one before it in its sequence). A block is forgotten
// only after all blocks behind it, so of every sequence the first blocks are there and the longest
// hit is found by bisection; and only leaves need their last use, whatever is before them was used
// no earlier. Aim: 64 bytes a block at 10 million blocks. Not thread-safe: its store locks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "schemas/block_key.h"
#include "schemas/kv_record.h"
#include "schemas/units.h"

namespace shoal::transport {

// Seconds since 1970 on the wall clock port. Lifetimes are hours: a second is fine enough.
using WallSeconds = std::int64_t;

// What a visible block's header says, as far as a hit needs it.
struct BlockInfo {
  std::uint32_t crc = 0;  // of the payload
  Provenance provenance = Provenance::kExact;
  TtlClass ttl = TtlClass::kChat;
};

// Where a record lies: the meaning is the store's.
struct BlockPlace {
  std::uint32_t segment = 0;
  std::uint32_t page = 0;  // of kKvRecordAlign bytes, from the segment's start
  std::uint32_t pages = 0;
};

// What decides how much a block is worth.
struct BlockUse {
  TtlClass ttl = TtlClass::kChat;
  std::uint32_t number = 0;  // of the block in its sequence
  std::uint32_t uses = 0;    // besides its first writing
  WallSeconds last_use = 0;
  WallSeconds idle_before = 0;  // between its last two uses; 0: it was used once
};

// Larger is kept longer. Pure; policies are in actors/policy.
using BlockWorth = std::function<std::int64_t(const BlockUse& use, WallSeconds now)>;

}  // namespace shoal::transport
