// Chunks of a prompt cost what their rows do, and a budget is used as far as rows fit.
#include "actors/policy/prefill_cost.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <random>

using namespace shoal;

namespace {

// 1 us a row, 2 us a row of the decoder half.
const CostModel kModel({.step = Nanos{500}, .row_ps = 1'000'000, .deep_row_ps = 2'000'000});

PrefillSpan bounded(Position prompt, Position total) {
  PrefillSpan span{.prompt = prompt, .total = total};
  span.reuse.decoder_start = std::max<Position>(0, prompt - 128);
  span.reuse.decoder_whole = span.reuse.decoder_start;
  return span;
}

PrefillSpan exact(Position prompt) {
  PrefillSpan span{.prompt = prompt, .total = prompt, .mode = BasisMode::kExact};
  span.reuse.decoder_start = std::max<Position>(0, prompt - 384);
  span.reuse.decoder_whole = span.reuse.decoder_start;
  return span;
}

}  // namespace

TEST_CASE("a prompt's last window is paid for with the rows that end it") {
  const PrefillSpan span = bounded(1'000, 1'000);
  CHECK(prefill_cost(kModel, span, 0, 999) == Nanos{999'000});
  CHECK(prefill_cost(kModel, span, 999, 1) == Nanos{1'000 + 256'000});
  CHECK(prefill_work(kModel, span) == Nanos{500 + 1'000'000 + 256'000});
}

TEST_CASE(
    "tokens that the client has run every layer, and so do the last rows of an exact prompt") {
  CHECK(prefill_left(kModel, bounded(1'000, 1'050), 1'000) == Nanos{50 * 3'000});
  CHECK(prefill_left(kModel, exact(1'000), 0) == Nanos{616 * 1'000 + 384 * 3'000});
}

TEST_CASE("what is left is what its chunks cost, however they are cut") {
  std::mt19937_64 random(20261130);
  MESSAGE("seed 20261130");
  for (const PrefillSpan& span : {bounded(1'000, 1'030), bounded(90, 90), exact(2'000)}) {
    const Nanos whole = prefill_left(kModel, span, 0);
    for (int i = 0; i < 20; ++i) {
      Nanos sum{0};
      for (Position done = 0; done < span.total;) {
        const auto most = static_cast<std::uint64_t>(chunk_border(span, done) - done);
        const auto rows = static_cast<std::int64_t>(1 + random() % most);
        sum += prefill_cost(kModel, span, done, rows);
        done += rows;
      }
      CHECK(sum == whole);
    }
  }
}

TEST_CASE("a chunk is the longest that a budget pays, the prompt's end included") {
  std::mt19937_64 random(20261131);
  MESSAGE("seed 20261131");
  for (const PrefillSpan& span : {bounded(1'000, 1'030), bounded(1'024, 1'024), exact(2'000)}) {
    for (int i = 0; i < 500; ++i) {
      const auto done = static_cast<Position>(random() % static_cast<std::uint64_t>(span.total));
      const Nanos budget{static_cast<std::int64_t>(random() % 2'000'000)};
      const std::int64_t rows = fit_prefill(kModel, span, done, budget);
      const std::int64_t most = chunk_border(span, done) - done;
      const std::int64_t least = std::min<std::int64_t>(most, kBlockTokens - done % kBlockTokens);
      REQUIRE(rows >= least);
      REQUIRE(rows <= most);
      if (rows > least) {
        REQUIRE(prefill_cost(kModel, span, done, rows) <= budget);
      }
      if (rows < most) {
        const std::int64_t next = std::min(rows + kBlockTokens, most);
        REQUIRE((done + rows) % kBlockTokens == 0);
        REQUIRE(prefill_cost(kModel, span, done, next) > budget);
      }
    }
  }
}
