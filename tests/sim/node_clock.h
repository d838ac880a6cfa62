// The clocks of one process. The monotonic one counts from a zero of its own, and its rate may be
// off; the wall clock is the world's, and may be set wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "schemas/block_use.h"
#include "schemas/units.h"

namespace shoal::sim {

// The wall clock of a world in which nobody's is set wrong: from some day in 2026 on.
inline WallMillis true_wall(Instant now) {
  constexpr WallMillis kBegin = 1'780'000'000'000;
  return kBegin +
         std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
}

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

  WallMillis wall() const { return true_wall(world_()) + wrong_.count(); }

  // From now on the wall clock is ahead by `wrong`, or behind.
  void set_wall(std::chrono::milliseconds wrong) {
    if (wrong != wrong_) {
      wrong_ = wrong;
      wall_set_at_ = world_();
    }
  }

  // On the world's clock.
  Instant wall_set_at() const { return wall_set_at_; }

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
  std::chrono::milliseconds wrong_{0};
  Instant wall_set_at_{};
};

}  // namespace shoal::sim
