// What decides how much a stored block is worth: an index fills it in, a policy judges.
#pragma once

#include <cstdint>

#include "schemas/kv_record.h"

namespace shoal {

// Milliseconds since 1970 on the wall clock port.
using WallMillis = std::int64_t;

constexpr WallMillis to_millis(Nanos time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

struct BlockUse {
  TtlClass ttl = TtlClass::kChat;
  std::uint32_t number = 0;  // of the block in its sequence
  std::uint32_t pages = 1;   // of its record
  std::uint32_t uses = 0;    // besides its first writing
  std::uint32_t turn = 0;    // blocks that its sequence wrote at the last use; 0: not known
  WallMillis last_use = 0;
  WallMillis idle_before = 0;  // what it had waited for its last use; 0: nothing, or not known
};

}  // namespace shoal
