// The clocks, the waiting and the randomness of a real process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "schemas/units.h"

namespace shoal::tools {

Instant monotonic_now();
std::int64_t unix_seconds_now();
std::int64_t unix_millis_now();
std::uint64_t random_seed();

// Time that passes without work. Any threads.
class Pause {
 public:
  // Returns at that time of monotonic_now(), or as soon as the pauses have ended.
  void until(Instant when);
  // For good.
  void end();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
};

}  // namespace shoal::tools
