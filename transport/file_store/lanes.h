// Threads for calls that block, a fixed number a lane: what hangs in one lane does not hold the
// others, and never more threads hang than there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "schemas/units.h"

namespace shoal::transport {

enum class Lane : std::uint8_t {
  kRead,
  kScan,   // by the threads of kRead, when they have nothing else
  kStage,  // puts in order what is written next
  kWrite,
  kTidy,
};
inline constexpr int kLanes = 5;

// Runs a function later, on some thread of the lane; one that is still waiting when the lanes end
// never runs.
using RunInLane = std::function<void(Lane, std::function<void()>)>;

class LaneThreads {
 public:
  // Staging, writing and tidying have one thread each.
  explicit LaneThreads(int readers);
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  // Valid for ever: does nothing once the lanes have ended.
  RunInLane port();

  // Drops what waits, runs `last` in the tidying lane and ends the threads. Those that hang in a
  // system call are left alone after kPatience: they end when the call returns, and touch only what
  // their function owns. Idempotent; the destructor calls it.
  void stop(std::function<void()> last = nullptr);

 private:
  static constexpr std::chrono::seconds kPatience{2};

  struct State;

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace shoal::transport
