// The time of a token on a full decode rank.
#include "actors/policy/service_demand.h"

#include <chrono>
#include <doctest/doctest.h>

using namespace shoal;
using std::chrono::milliseconds;

namespace {

// 10 ms a step and 1 ms a row.
const CostModel kCost({.step = milliseconds(10), .row_ps = 1'000'000'000});

}  // namespace

TEST_CASE("a token costs its share of the fullest step that is fast enough") {
  CHECK(token_work(kCost, 0, 64, milliseconds(50)) == Nanos{milliseconds(50)} / 40);
  CHECK(token_work(kCost, 0, 20, milliseconds(50)) == Nanos{milliseconds(30)} / 20);
}

TEST_CASE("where no step is fast enough a token costs the smallest one") {
  CHECK(token_work(kCost, 0, 64, milliseconds(5)) == milliseconds(11));
  CHECK(token_work(kCost, 0, 0, milliseconds(50)) == milliseconds(11));
}

TEST_CASE("long contexts make fuller steps slower and tokens dearer") {
  const CostModel cost(
      {.step = milliseconds(10), .row_ps = 1'000'000'000, .pair_fs = 1'000'000'000});
  CHECK(token_work(cost, 10'000, 64, milliseconds(50)) >
        token_work(cost, 100, 64, milliseconds(50)));
}
