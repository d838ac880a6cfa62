// What was given between two looks is what the later has beyond the earlier.
#include "actors/expert_window.h"

#include <doctest/doctest.h>

using namespace shoal;

TEST_CASE("a window has what came since the last one, and as many steps as its busiest layer") {
  const std::vector<ExpertTraffic> before = {{3, {5, 1}, {4, 2}}, {1, {0, 1}, {1, 0}}};
  const std::vector<ExpertTraffic> now = {{10, {6, 9}, {7, 8}}, {1, {0, 1}, {1, 0}}};
  const ExpertWindow window = window_between(before, now);
  REQUIRE(window.layers.size() == 2);
  CHECK(window.steps == 7);
  CHECK(window.rows == 9);
  CHECK(window.layers[0].experts == std::vector<std::int64_t>{1, 8});
  CHECK(window.layers[0].ranks == std::vector<std::int64_t>{3, 6});
  CHECK(window.layers[1].experts == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("the first window has all that came") {
  const std::vector<ExpertTraffic> now = {{2, {6, 9}, {7, 8}}};
  const ExpertWindow window = window_between({}, now);
  CHECK(window.steps == 2);
  CHECK(window.rows == 15);
  CHECK(window.layers[0].ranks == now[0].ranks);
}
