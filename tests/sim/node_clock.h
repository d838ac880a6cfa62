// The monotonic clock of one process: it counts from a zero of its own, and its rate may be off.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "schemas/units.h"

namespace shoal::sim {

class NodeClock {
 public:
  NodeClock(std::function<Instant()> world, Nanos ahead)
      : world_(std::move(world)),
        since_(world_()),
        read_(since_ + ahead) {}

  // What the process reads.
  Instant now() const {
    const Nanos passed = world_() - since_;
    return read_ + passed + passed * drift_ / kMillion;
  }

  // When it will read `there`, on the world's clock and at its present rate; beyond a day: a day.
  Instant to_world(Instant there) const {
    const Nanos left = there - read_;
    return since_ + (drift_ == 0 ? left
                                 : std::min<Nanos>(left, std::chrono::hours(24)) /
                                       (kMillion + drift_) * kMillion);
  }

  // From now on it gains that many microseconds in a second, or loses them.
  void drift(std::int64_t us_per_s) {
    const Instant world = world_();
    read_ = now();
    since_ = world;
    drift_ = us_per_s;
  }

 private:
  static constexpr std::int64_t kMillion = 1'000'000;

  std::function<Instant()> world_;
  Instant since_;  // on the world's clock, when it read `read_`
  Instant read_;
  std::int64_t drift_ = 0;
};

}  // namespace shoal::sim
