// Events in the order of their times; equal times in the order in which they were added.
#pragma once

#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "schemas/units.h"

namespace shoal::sim {

template <class Kind>
class EventQueue {
 public:
  struct Event {
    Nanos at{0};
    std::uint64_t order = 0;
    Kind kind{};
    std::uint64_t subject = 0;
    std::uint64_t version = 0;  // an event of an older one is void

    friend bool operator>(const Event& a, const Event& b) {
      return std::tie(a.at, a.order) > std::tie(b.at, b.order);
    }
  };

  void add(Nanos at, Kind kind, std::uint64_t subject, std::uint64_t version = 0) {
    events_.push({at, order_++, kind, subject, version});
  }

  bool empty() const { return events_.empty(); }

  Event take() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

}  // namespace shoal::sim
