// One loop at a time, cut into pieces that threads take by a counter. Idle threads wait on a
// condition variable, they never spin.
#include "kernels/compute_pool.h"

#include <algorithm>
#include <atomic>

#include "schemas/check.h"

namespace shoal::kernels {

namespace {

// Pieces per thread: enough that a thread that starts late costs little.
constexpr std::int64_t kPiecesPerThread = 4;

// Set while this thread runs a piece: a loop started from there has no threads to share and would
// wait for itself.
thread_local bool inside_piece = false;

}  // namespace

struct ComputePool::Loop {
  const std::function<void(std::int64_t, std::int64_t)>& body;
  std::int64_t count = 0;
  std::int64_t piece = 0;
  std::atomic<std::int64_t> next = 0;
  int active = 0;  // workers inside; guarded by mutex_
};

ComputePool::ComputePool(int threads) {
  CHECK(threads >= 1);
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this] { work(); });
  }
}

ComputePool::~ComputePool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ComputePool::parallel_for(std::int64_t count,
                               std::int64_t grain,
                               const std::function<void(std::int64_t, std::int64_t)>& body) {
  CHECK(grain >= 1);
  if (count <= 0) {
    return;
  }
  if (workers_.empty() || count <= grain || inside_piece) {
    body(0, count);
    return;
  }
  const std::lock_guard one_loop(callers_);
  const std::int64_t pieces = threads() * kPiecesPerThread;
  Loop loop{.body = body, .count = count, .piece = std::max(grain, (count + pieces - 1) / pieces)};
  {
    const std::lock_guard lock(mutex_);
    loop_ = &loop;
    ++generation_;
  }
  wake_.notify_all();
  take_pieces(loop);
  std::unique_lock lock(mutex_);
  loop_ = nullptr;  // a worker that wakes only now must not enter
  done_.wait(lock, [&loop] { return loop.active == 0; });
}

void ComputePool::work() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (loop_ != nullptr && generation_ != seen); });
    if (stopping_) {
      return;
    }
    seen = generation_;
    Loop& loop = *loop_;
    ++loop.active;
    lock.unlock();
    take_pieces(loop);
    lock.lock();
    if (--loop.active == 0) {
      done_.notify_one();
    }
  }
}

void ComputePool::take_pieces(Loop& loop) {
  while (true) {
    const std::int64_t begin = loop.next.fetch_add(loop.piece, std::memory_order_relaxed);
    if (begin >= loop.count) {
      return;
    }
    inside_piece = true;
    loop.body(begin, std::min(begin + loop.piece, loop.count));
    inside_piece = false;
  }
}

}  // namespace shoal::kernels
