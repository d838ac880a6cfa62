// What happens when, in virtual time: one queue of functions, those of equal time in the order they
// were asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "schemas/units.h"
#include "transport/scheduler.h"

namespace shoal::sim {

class Timeline {
 public:
  explicit Timeline(std::function<Instant()> now) : now_(std::move(now)) {}

  Instant now() const { return now_(); }

  void after(Nanos delay, std::function<void()> run) {
    queue_.emplace(std::pair(now() + delay, ++last_), std::move(run));
  }

  std::optional<Instant> next() const {
    return queue_.empty() ? std::nullopt : std::optional(queue_.begin()->first.first);
  }

  // Runs the first function that is due. False: none is.
  bool run_due() {
    if (queue_.empty() || queue_.begin()->first.first > now()) {
      return false;
    }
    const auto first = queue_.extract(queue_.begin());
    first.mapped()();
    return true;
  }

  void clear() { queue_.clear(); }

  transport::Scheduler scheduler() {
    return {[this] { return now(); },
            [this](Nanos delay, std::function<void()> run) { after(delay, std::move(run)); }};
  }

 private:
  std::function<Instant()> now_;
  std::uint64_t last_ = 0;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> queue_;
};

}  // namespace shoal::sim
