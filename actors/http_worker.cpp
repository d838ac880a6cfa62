// A bounded queue in front of one thread.
#include "actors/http_worker.h"

#include <utility>

namespace shoal {

HttpWorker::HttpWorker(std::size_t queue_limit)
    : queue_limit_(queue_limit),
      thread_([this] { run(); }) {}

HttpWorker::~HttpWorker() {
  stop();
}

bool HttpWorker::push(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= queue_limit_)
      return false;
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void HttpWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

void HttpWorker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_)
      return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds is freed before the lock is taken again
    lock.lock();
  }
}

}  // namespace shoal
