// A queue and a condition a lane; threads share the state with the object, so they may outlive it.
#include "transport/file_store/lanes.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace shoal::transport {

struct LaneThreads::State {
  using Functions = std::deque<std::function<void()>>;

  std::mutex mutex;
  std::array<Functions, kLanes> lanes;
  std::array<std::condition_variable, kLanes>
      changed;  // by the lane that comes first of a thread's
  std::condition_variable ended;
  bool stopped = false;
  std::size_t running = 0;  // threads

  Functions& of(Lane lane) { return lanes.at(static_cast<std::size_t>(lane)); }

  std::condition_variable& changed_of(Lane lane) {
    return changed.at(static_cast<std::size_t>(lane == Lane::kScan ? Lane::kRead : lane));
  }

  // What a thread that serves `first`, then `second`, does next; null: nothing.
  std::function<void()> take(Lane first, Lane second) {
    Functions& functions = of(first).empty() ? of(second) : of(first);
    if (functions.empty()) {
      return nullptr;
    }
    auto next = std::move(functions.front());
    functions.pop_front();
    return next;
  }

  void loop(Lane first, Lane second) {
    std::unique_lock lock(mutex);
    while (true) {
      if (auto next = take(first, second)) {
        lock.unlock();
        next();
        next = nullptr;
        lock.lock();
      } else if (stopped) {
        break;
      } else {
        changed_of(first).wait(lock);
      }
    }
    --running;
    ended.notify_all();
  }
};

LaneThreads::LaneThreads(int readers) : state_(std::make_shared<State>()) {
  const auto add = [this](Lane first, Lane second) {
    ++state_->running;
    threads_.emplace_back([state = state_, first, second] { state->loop(first, second); });
  };
  const std::lock_guard lock(state_->mutex);
  for (int i = 0; i < readers; ++i) {
    add(Lane::kRead, Lane::kScan);
  }
  add(Lane::kStage, Lane::kStage);
  add(Lane::kWrite, Lane::kWrite);
  add(Lane::kTidy, Lane::kTidy);
}

LaneThreads::~LaneThreads() {
  stop();
}

RunInLane LaneThreads::port() {
  return [state = state_](Lane lane, std::function<void()> function) {
    const std::lock_guard lock(state->mutex);
    if (!state->stopped) {
      state->of(lane).push_back(std::move(function));
      state->changed_of(lane).notify_one();
    }
  };
}

void LaneThreads::stop(std::function<void()> last) {
  std::array<State::Functions, kLanes> dropped;
  bool all_ended = false;
  {
    std::unique_lock lock(state_->mutex);
    if (state_->stopped) {
      return;
    }
    state_->stopped = true;
    dropped.swap(state_->lanes);  // destroyed outside the lock: what they hold may call back in
    if (last) {
      state_->of(Lane::kTidy).push_back(std::move(last));
    }
    for (std::condition_variable& changed : state_->changed) {
      changed.notify_all();
    }
    all_ended = state_->ended.wait_for(lock, kPatience, [this] { return state_->running == 0; });
  }
  for (std::thread& thread : threads_) {
    if (all_ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  threads_.clear();
}

}  // namespace shoal::transport
