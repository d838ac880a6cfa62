// The process's one compute pool: a fixed number of threads that park when idle and split one loop
// at a time between them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shoal::kernels {

// Thread-safe: loops of several callers run one after the other. Results must not depend on how the
// loop is split.
class ComputePool {
 public:
  // threads >= 1 counts the calling thread: a pool of one runs everything on the caller.
  explicit ComputePool(int threads);
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  // Calls body(begin, end) over pieces of [0, count), each at least `grain` long (except the last);
  // returns when all are done. A loop started from inside body runs on that thread alone.
  void parallel_for(std::int64_t count,
                    std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  struct Loop;
  void work();
  static void take_pieces(Loop& loop);

  std::mutex callers_;  // one loop at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;
  std::uint64_t generation_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace shoal::kernels
