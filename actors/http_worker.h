// One thread for work that would hold up an I/O thread: parsing and tokenising large bodies.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace shoal {

class HttpWorker {
 public:
  explicit HttpWorker(std::size_t queue_limit);
  ~HttpWorker();

  // Any thread. False when the queue is full; then the work is not done.
  bool push(std::function<void()> work);
  // Finishes the work in progress, forgets the rest and joins. Twice is fine.
  void stop();

 private:
  void run();

  std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace shoal
