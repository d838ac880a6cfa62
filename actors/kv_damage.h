// Damage that a KV store met: when the log tells of it, and what health says while it is fresh.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/units.h"
#include "transport/block_store.h"

namespace shoal {

class KvDamage {
 public:
  // Health says so for as long after the last that was met: a monitor that looks but twice a minute
  // sees it.
  static constexpr Nanos kShown = std::chrono::minutes(1);

  // What the store counted by now. True: the log is to tell, once in a while, since what is damaged
  // is met piece by piece.
  bool see(const transport::BlockStore::Use& use, Instant now);

  // Empty: nothing was met lately. Of index pages it says nothing: those are torn with every writer
  // that dies, too.
  std::string trouble(Instant now) const;

 private:
  std::int64_t told_ = 0;
  Instant told_at_{};
  std::int64_t records_ = 0;
  Instant until_{};
};

}  // namespace shoal
