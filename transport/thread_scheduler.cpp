// One thread that sleeps until the earliest deferred function is due.
#include "transport/thread_scheduler.h"

namespace shoal::transport {

ThreadScheduler::ThreadScheduler(Clock now) : now_(std::move(now)), thread_([this] { loop(); }) {}

ThreadScheduler::~ThreadScheduler() {
  stop();
}

void ThreadScheduler::defer(Nanos delay, std::function<void()> run) {
  const Instant at = now_() + delay;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      return;
    }
    due_.emplace(std::pair(at, deferred_++), std::move(run));
  }
  changed_.notify_one();
}

void ThreadScheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
  // Dropped outside the lock: what a function holds may call back in when it is destroyed.
  auto dropped = std::exchange(due_, {});
}

Scheduler ThreadScheduler::port() {
  return {now_, [this](Nanos delay, std::function<void()> run) { defer(delay, std::move(run)); }};
}

void ThreadScheduler::loop() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (due_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Nanos left = due_.begin()->first.first - now_();
    if (left > Nanos(0)) {
      changed_.wait_for(lock, left);
      continue;
    }
    auto next = due_.extract(due_.begin());
    lock.unlock();
    next.mapped()();
    next = {};
    lock.lock();
  }
}

}  // namespace shoal::transport
