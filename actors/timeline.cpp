// Keeps the timelines within their two bounds.
#include "actors/timeline.h"

#include <utility>

namespace shoal {

void TimelineBoard::open(RequestId request,
                         const std::string& tenant,
                         std::uint32_t choice,
                         Instant now) {
  const std::lock_guard lock(mutex_);
  if (requests_ == 0 || kept_.contains(request)) {
    return;
  }
  if (order_.size() == requests_) {
    kept_.erase(order_.front());
    order_.pop_front();
  }
  kept_[request] = {now, {request, tenant, choice, {}, 0}};
  order_.push_back(request);
}

void TimelineBoard::add(RequestId request, Instant now, TimelineEntry entry) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(request);
  if (found == kept_.end()) {
    return;
  }
  RequestTimeline& timeline = found->second.timeline;
  entry.at = now - found->second.received;
  if (timeline.entries.size() == kTimelineEntries) {
    timeline.entries.erase(timeline.entries.begin() + kTimelineEntries / 2);
    ++timeline.left_out;
  }
  timeline.entries.push_back(std::move(entry));
}

std::optional<RequestTimeline> TimelineBoard::find(RequestId request) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(request);
  return found == kept_.end() ? std::nullopt : std::optional(found->second.timeline);
}

}  // namespace shoal
