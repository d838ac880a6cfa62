// A scheduler with a virtual clock: time passes when the test says so.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "transport/scheduler.h"

namespace shoal::testing {

class StepScheduler {
 public:
  transport::Scheduler port() {
    return {[this] { return now_; },
            [this](Nanos delay, std::function<void()> run) {
              due_.emplace(now_ + delay, std::move(run));
            }};
  }

  Instant now() const { return now_; }

  void run_all() {
    while (!due_.empty()) {
      auto next = due_.extract(due_.begin());
      now_ = std::max(now_, next.key());
      next.mapped()();
    }
  }

  // What is due until then, and what that defers; for those who never end.
  void run_for(Nanos time) {
    const Instant end = now_ + time;
    while (!due_.empty() && due_.begin()->first <= end) {
      auto next = due_.extract(due_.begin());
      now_ = std::max(now_, next.key());
      next.mapped()();
    }
    now_ = end;
  }

 private:
  Instant now_{};
  std::multimap<Instant, std::function<void()>> due_;
};

}  // namespace shoal::testing
