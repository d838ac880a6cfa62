// What happened to each request, step by step, for whoever asks why. The board is where the
// request's gateway is: a router of that node writes it, one of another node sends what to write.
// Any thread reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct TimelineField {
  std::string name;
  std::variant<std::int64_t, std::string> value;
};

using TimelineFields = std::vector<TimelineField>;

struct TimelineEntry {
  Nanos at{0};  // since the request was received first
  NodeId node;  // where it happened
  AttemptId attempt;
  std::string event;
  std::string state;  // that the event led to
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
