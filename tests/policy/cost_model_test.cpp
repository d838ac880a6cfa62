// The quadratic cost by hand, and its inverse against the cost itself.
#include "actors/policy/cost_model.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <random>

using namespace shoal;

namespace {
// 1 us a step, 2 ns a row, 1 ps for a row looking at an earlier token.
const CostModel kModel({.step = Nanos{1'000}, .row_ps = 2'000, .pair_fs = 1'000});
}  // namespace

TEST_CASE("a chunk costs its step, its rows and what they look at") {
  CHECK(kModel.chunk(0, 0) == Nanos{1'000});
  CHECK(kModel.rows_only(1'000, 0) == Nanos{2'000 + 500});          // 1,000^2 / 2 pairs of 1 ps
  CHECK(kModel.rows_only(1'000, 10'000) == Nanos{2'000 + 10'500});  // plus 1,000 * 10,000 pairs
  CHECK(kModel.decode_step(10, 5'000) == Nanos{1'000 + 20 + 5});
}

TEST_CASE("entries close by are counted until a row has kNear of them") {
  StepWork work;
  work.add(3, 0);
  CHECK(work.near == 0 + 1 + 2);
  work = {};
  work.add(4, kNear - 2);
  CHECK(work.near == 4 * kNear - 2 - 1);
  work = {};
  work.add(10, 5'000);
  CHECK(work.near == 10 * kNear);
  const CostModel model({.row_ps = 1'000, .near_fs = 1'000'000});  // 1 ns a row, 1 ns an entry
  CHECK(model.rows_only(10, 5'000) == Nanos{10 + 10 * kNear});
}

TEST_CASE("rows of the decoder half cost on top, kept ones with those that end the prompt") {
  const CostModel model({.row_ps = 1'000'000,  // 1 us a row, 2 us a deep one
                         .deep_row_ps = 2'000'000,
                         .deep_pair_fs = 1'000'000});
  CHECK(model.rows_only(100, 0) == Nanos{100'000});
  CHECK(model.rows_only(100, 0, 100) == Nanos{100'000 + 200'000 + 5'000});
  // The last 128 tokens before 1,100, 28 of which were kept.
  CHECK(model.rows_only(100, 1'000, 128) == Nanos{100'000 + 256'000 + 128 * 972 + 128 * 64});
}

TEST_CASE("a model of every layer costs what rows of both halves do") {
  const CostModel model({.step = Nanos{7},
                         .row_ps = 3'000'000,
                         .pair_fs = 5'000'000,
                         .near_fs = 9'000'000,
                         .deep_row_ps = 4'000'000,
                         .deep_pair_fs = 6'000'000});
  for (const Position start : {0, 100, 5'000}) {
    CHECK(model.every_layer().rows_only(200, start) == model.rows_only(200, start, 200));
  }
  CHECK(model.every_layer().chunk(0, 0) == Nanos{7});
}

TEST_CASE("coefficients beyond their bounds are bounded, and a row never costs nothing") {
  const CostModel least({.step = Nanos{-5}, .row_ps = 0, .pair_fs = -1, .near_fs = INT64_MIN});
  CHECK(least.chunk(1'000'000, 0) == Nanos{1'000});
  const CostModel most({.step = Nanos::max(), .row_ps = INT64_MAX, .pair_fs = INT64_MAX});
  CHECK(most.coefficients().step == kMostCost.step);
  CHECK(most.coefficients().pair_fs == kMostCost.pair_fs);
}

TEST_CASE("a chunk that fits a budget ends on a block border") {
  CHECK(kModel.fit_chunk(Nanos{2'500}, 0, 10'000) == 896);    // 1,000 rows would fit: seven blocks
  CHECK(kModel.fit_chunk(Nanos{2'500}, 100, 10'000) == 924);  // up to position 1,024: 2,367 ns
  CHECK(kModel.fit_chunk(Nanos{2'500}, 0, 900) == 900);       // the last chunk is the exact rest
}

TEST_CASE("a budget that is too small still moves one block") {
  CHECK(kModel.fit_chunk(Nanos{0}, 0, 10'000) == 128);
  CHECK(kModel.fit_chunk(Nanos{-5}, 100, 10'000) == 28);
  CHECK(kModel.fit_chunk(Nanos{0}, 0, 50) == 50);
}

TEST_CASE("the largest chunk within the budget is found for any coefficients") {
  std::mt19937_64 random(20261129);
  MESSAGE("seed 20261129");
  for (int i = 0; i < 2'000; ++i) {
    const CostModel model({.step = Nanos{0},
                           .row_ps = 1 + static_cast<std::int64_t>(random() % 1'000'000),
                           .pair_fs = static_cast<std::int64_t>(random() % 100'000),
                           .near_fs = static_cast<std::int64_t>(random() % 3 * 100'000)});
    const auto start = static_cast<Position>(random() % (i % 2 == 0 ? 500'000 : 300));
    const auto remaining = static_cast<std::int64_t>(1 + random() % 500'000);
    const Nanos budget{static_cast<std::int64_t>(random() % 1'000'000'000)};
    const std::int64_t rows = model.fit_chunk(budget, start, remaining);
    const std::int64_t least =
        std::min<std::int64_t>(remaining, kBlockTokens - start % kBlockTokens);
    REQUIRE(rows >= least);
    REQUIRE(rows <= remaining);
    if (rows < remaining) {
      REQUIRE((start + rows) % kBlockTokens == 0);
      REQUIRE(model.rows_only(std::min(rows + kBlockTokens, remaining), start) > budget);
    }
    if (rows > least) {
      REQUIRE(model.rows_only(rows, start) <= budget);
    }
  }
}

TEST_CASE("a million tokens do not overflow at the largest coefficients") {
  const CostModel model(kMostCost);
  CHECK(model.rows_only(1'048'576, 1'048'576, 1'048'576).count() > 0);
  CHECK(model.rows_only(1'048'576, 0) > model.rows_only(1'048'575, 0));
  CHECK(model.fit_chunk(Nanos::max(), 0, 1'048'576) == 1'048'576);
}
