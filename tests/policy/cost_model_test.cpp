// The quadratic cost by hand, and its inverse against the cost itself.
#include "actors/policy/cost_model.h"

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
                           .pair_fs = static_cast<std::int64_t>(random() % 100'000)});
    const auto start = static_cast<Position>(random() % 500'000);
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
  const CostModel model({.step = Nanos{0}, .row_ps = 1, .pair_fs = 1'000'000});
  CHECK(model.rows_only(1'048'576, 0).count() > 0);
  CHECK(model.rows_only(1'048'576, 0) > model.rows_only(1'048'575, 0));
}
