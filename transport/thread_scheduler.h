// A scheduler that is one thread: runs deferred functions by time, and in order where times are
// equal.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "transport/scheduler.h"

namespace shoal::transport {

class ThreadScheduler {
 public:
  explicit ThreadScheduler(Clock now);
  ~ThreadScheduler();
  ThreadScheduler(const ThreadScheduler&) = delete;
  ThreadScheduler& operator=(const ThreadScheduler&) = delete;

  void defer(Nanos delay, std::function<void()> run);
  // Ends the thread after the function that runs, if any; the others are dropped. Idempotent; not
  // to be called from a deferred function.
  void stop();

  // Valid as long as this object.
  Scheduler port();

 private:
  void loop();

  Clock now_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::uint64_t deferred_ = 0;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> due_;
  std::thread thread_;
};

}  // namespace shoal::transport
