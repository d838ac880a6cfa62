// What tests wait for: results that callbacks bring, with a deadline far beyond what is needed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "schemas/units.h"

namespace shoal::testing {

inline constexpr std::chrono::seconds kPatience(60);

inline Instant clock_now() {
  return std::chrono::steady_clock::now();
}

// Far away: only a hang gets there.
inline Instant later() {
  return clock_now() + kPatience;
}

template <class T>
class Inbox {
 public:
  // Tells under the lock: whoever waits may end this object next.
  void put(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    changed_.notify_all();
  }

  // What came, once `count` did or patience ends.
  std::vector<T> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return values_.size() >= count; });
    return values_;
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> values_;
};

// Holds a thread until it is opened.
class Gate {
 public:
  ~Gate() { open(); }

  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

}  // namespace shoal::testing
