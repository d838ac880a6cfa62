// The board of timelines keeps to its two bounds and forgets the oldest first.
#include "actors/timeline.h"

#include <doctest/doctest.h>
#include <string>

using namespace shoal;
using std::chrono::milliseconds;

namespace {

constexpr Instant kStart{std::chrono::seconds(5)};

TimelineEntry entry(int number) {
  return {{}, NodeId{1}, AttemptId{1}, "event", "state", {{"number", std::int64_t{number}}}};
}

std::int64_t number_of(const TimelineEntry& entry) {
  return std::get<std::int64_t>(entry.fields.at(0).value);
}

}  // namespace

TEST_CASE("entries tell the time since the request was first received, over all its attempts") {
  TimelineBoard board(4);
  board.open(RequestId{7}, "team", 2, kStart);
  board.add(RequestId{7}, kStart + milliseconds(3), entry(1));
  board.open(RequestId{7}, "team", 2, kStart + milliseconds(10));  // a later attempt
  board.add(RequestId{7}, kStart + milliseconds(12), entry(2));
  const auto timeline = board.find(RequestId{7});
  REQUIRE(timeline.has_value());
  CHECK(timeline->tenant == "team");
  CHECK(timeline->choice == 2);
  REQUIRE(timeline->entries.size() == 2);
  CHECK(timeline->entries[0].at == milliseconds(3));
  CHECK(timeline->entries[1].at == milliseconds(12));
  CHECK(timeline->left_out == 0);
}

TEST_CASE("of a long timeline the first and the last entries are kept") {
  TimelineBoard board(1);
  board.open(RequestId{1}, "", 0, kStart);
  for (int i = 0; i < 100; ++i) {
    board.add(RequestId{1}, kStart, entry(i));
  }
  const auto timeline = board.find(RequestId{1});
  REQUIRE(timeline->entries.size() == kTimelineEntries);
  CHECK(timeline->left_out == 100 - static_cast<std::int64_t>(kTimelineEntries));
  CHECK(number_of(timeline->entries.front()) == 0);
  CHECK(number_of(timeline->entries[kTimelineEntries / 2 - 1]) == kTimelineEntries / 2 - 1);
  CHECK(number_of(timeline->entries.back()) == 99);
}

TEST_CASE("the oldest request is forgotten for the newest") {
  TimelineBoard board(2);
  for (const std::uint64_t request : {1, 2, 3}) {
    board.open(RequestId{request}, "", 0, kStart);
  }
  board.add(RequestId{1}, kStart, entry(1));
  CHECK_FALSE(board.find(RequestId{1}).has_value());
  CHECK(board.find(RequestId{2}).has_value());
  CHECK(board.find(RequestId{3}).has_value());
  TimelineBoard none(0);
  none.open(RequestId{1}, "", 0, kStart);
  CHECK_FALSE(none.find(RequestId{1}).has_value());
}
