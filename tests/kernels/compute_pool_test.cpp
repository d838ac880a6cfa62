// The compute pool: every index once, pieces of at least the grain, several callers.
#include "kernels/compute_pool.h"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>

namespace shoal::kernels {

TEST_CASE("every index is visited once for any count, grain and number of threads") {
  for (const int threads : {1, 2, 5}) {
    ComputePool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::int64_t count : {0, 1, 7, 64, 1001}) {
      for (const std::int64_t grain : {1, 3, 100, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        std::atomic<bool> short_piece = false;
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
          if (end - begin < grain && end != count) {
            short_piece = true;
          }
          for (std::int64_t i = begin; i < end; ++i) {
            ++visits[static_cast<std::size_t>(i)];
          }
        });
        CHECK_FALSE(short_piece);
        for (const std::atomic<int>& v : visits) {
          REQUIRE(v == 1);
        }
      }
    }
  }
}

TEST_CASE("loops of several callers all complete") {
  ComputePool pool(3);
  std::atomic<std::int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        pool.parallel_for(
            100, 1, [&](std::int64_t begin, std::int64_t end) { total += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  CHECK(total == 4 * 200 * 100);
}

TEST_CASE("pieces run on all threads at once") {
  ComputePool pool(3);
  std::mutex mutex;
  std::condition_variable arrived;
  int inside = 0;
  bool together = true;
  pool.parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
    std::unique_lock lock(mutex);
    ++inside;
    arrived.notify_all();
    together = arrived.wait_for(lock, std::chrono::seconds(60), [&] { return inside == 3; }) && together;
  });
  CHECK(together);
}

TEST_CASE("work that fits in one grain stays on the calling thread") {
  ComputePool pool(2);
  std::thread::id seen;
  pool.parallel_for(10, 10, [&](std::int64_t, std::int64_t) { seen = std::this_thread::get_id(); });
  CHECK(seen == std::this_thread::get_id());
}

}  // namespace shoal::kernels
