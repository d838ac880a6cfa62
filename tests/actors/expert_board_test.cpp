// One plan at a time, and what the page of metrics says of them.
#include "actors/expert_board.h"

#include <doctest/doctest.h>
#include <string>

using namespace shoal;
using std::chrono::seconds;

namespace {

bool has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("one plan is under way at a time; one not heard of by its deadline is lost") {
  ExpertBoard board;
  const Instant start{};
  const auto first = board.begin(start, seconds(10));
  REQUIRE(first != nullptr);
  first->has_begun = true;
  CHECK(board.begin(start + seconds(9), seconds(10)) == nullptr);
  const auto second = board.begin(start + seconds(10), seconds(10));
  REQUIRE(second != nullptr);
  second->has_begun = true;
  // The lost one ends after all: the second is still under way.
  board.kept(*first);
  CHECK(board.begin(start + seconds(11), seconds(10)) == nullptr);
  board.failed(*second);
  CHECK(board.begin(start + seconds(11), seconds(10)) != nullptr);
  const std::string text = board.text(EpochId{3});
  CHECK(has(text, "shoal_expert_plans_total{end=\"lost\"} 1"));
  CHECK(has(text, "shoal_expert_plans_total{end=\"kept\"} 1"));
  CHECK(has(text, "shoal_expert_plans_total{end=\"failed\"} 1"));
  CHECK(has(text, "shoal_expert_epoch 3"));
}

TEST_CASE("behind a plan whose thread is held up none waits, however long that takes") {
  ExpertBoard board;
  const auto stuck = board.begin(Instant{}, seconds(10));
  CHECK(board.begin(Instant{} + seconds(1'000), seconds(10)) == nullptr);
  stuck->has_begun = true;
  CHECK(board.begin(Instant{} + seconds(1'001), seconds(10)) != nullptr);
}

TEST_CASE("metrics have a line a layer, a shard and a place of the busiest, and sums of moves") {
  ExpertBoard board;
  board.saw_window({{4, {1, 7, 3, 0, 7, 2}, {10, 10}}, {4, {10, 0, 0, 0, 0, 10}, {15, 5}}});
  for (int i = 0; i < 2; ++i) {
    const auto flight = board.begin(Instant{}, seconds(1));
    board.planned(Nanos{50});
    board.placed(*flight, {.slots = 3, .bytes = Bytes{300}, .time = Nanos{40}});
  }
  const std::string text = board.text(EpochId{3});
  CHECK(has(text, "shoal_expert_moe_lb{layer=\"0\"} 1.000"));
  CHECK(has(text, "shoal_expert_moe_lb{layer=\"1\"} 1.500"));
  CHECK(has(text, "shoal_expert_shard_rows{shard=\"0\"} 25"));
  CHECK(has(text, "shoal_expert_shard_rows{shard=\"1\"} 15"));
  CHECK(has(text, "shoal_expert_top{layer=\"0\",place=\"1\"} 1"));
  CHECK(has(text, "shoal_expert_top{layer=\"0\",place=\"2\"} 4"));
  CHECK(has(text, "shoal_expert_top_rows{layer=\"0\",place=\"3\"} 3"));
  CHECK(text.find("place=\"5\"") == std::string::npos);
  CHECK(has(text, "shoal_expert_moves_total 6"));
  CHECK(has(text, "shoal_expert_moved_bytes_total 600"));
  CHECK(has(text, "shoal_expert_place_ns_total 80"));
  CHECK(has(text, "shoal_expert_plan_ns_total 100"));
}
