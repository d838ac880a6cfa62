// What happened to each request, step by step, for whoever asks why: a router writes, any thread
// reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct TimelineField {
  std::string_view name;  // a literal
  std::variant<std::int64_t, std::string> value;
};

using TimelineFields = std::vector<TimelineField>;

struct TimelineEntry {
  Nanos at{0};  // since the request was received first
  NodeId node;  // where it happened
  AttemptId attempt;
  std::string_view event;  // a literal, as is `state`: the one that the event led to
  std::string_view state;
  TimelineFields fields;  // what was decided, and from what
};

struct RequestTimeline {
  RequestId request;
  std::string tenant;
  std::uint32_t choice = 0;
  std::vector<TimelineEntry> entries;
  std::int64_t left_out = 0;  // entries, from the middle: the first and the last ones are kept
};

inline constexpr std::size_t kTimelineEntries = 64;  // of one request

// The newest requests, open or over; the oldest goes when another one comes.
class TimelineBoard {
 public:
  explicit TimelineBoard(std::size_t requests) : requests_(requests) {}

  // A request that is known already goes on: a later attempt of it.
  void open(RequestId request, const std::string& tenant, std::uint32_t choice, Instant now);
  // `entry.at` is set here. Nothing when the request was not opened, or is forgotten.
  void add(RequestId request, Instant now, TimelineEntry entry);
  std::optional<RequestTimeline> find(RequestId request) const;

 private:
  struct Kept {
    Instant received;
    RequestTimeline timeline;
  };

  std::size_t requests_;
  mutable std::mutex mutex_;
  std::map<RequestId, Kept> kept_;
  std::deque<RequestId> order_;  // as they came
};

}  // namespace shoal
