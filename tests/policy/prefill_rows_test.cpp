// Which rows a prefill runs, through which half of the model.
#include "actors/policy/prefill_rows.h"

#include <doctest/doctest.h>
#include <random>

using namespace shoal;

TEST_CASE("a bounded request's decoder half starts one window before the prompt's end") {
  CHECK(first_basis(BasisMode::kBounded, 300, 128).tail_start == 172);
  CHECK(first_basis(BasisMode::kBounded, 100, 128).tail_start == 0);
  CHECK(first_basis(BasisMode::kExact, 300, 128).tail_start == 0);
}

TEST_CASE("a bounded prompt runs the encoder half, finishes once, and samples") {
  const PrefillSpan span{.prompt = 300, .total = 300, .mode = BasisMode::kBounded};
  const PrefillRows first = prefill_rows(span, 0, 256);
  CHECK((first.encoder_only && !first.finishes_prompt && !first.samples));
  const PrefillRows last = prefill_rows(span, 256, 44);
  CHECK((last.encoder_only && last.finishes_prompt && last.samples));
}

TEST_CASE("tokens the client already has follow a bounded prompt as decode rows") {
  const PrefillSpan span{.prompt = 300, .total = 310, .mode = BasisMode::kBounded};
  CHECK(chunk_border(span, 256) == 300);
  const PrefillRows prompt_end = prefill_rows(span, 256, 44);
  CHECK((prompt_end.finishes_prompt && !prompt_end.samples));
  CHECK(chunk_border(span, 300) == 310);
  const PrefillRows forced = prefill_rows(span, 300, 10);
  CHECK((!forced.encoder_only && !forced.finishes_prompt && forced.samples));
}

TEST_CASE("an exact prompt runs every layer and its chunks may cross into forced tokens") {
  const PrefillSpan span{.prompt = 300, .total = 310, .mode = BasisMode::kExact};
  CHECK(chunk_border(span, 0) == 310);
  const PrefillRows rows = prefill_rows(span, 256, 54);
  CHECK((!rows.encoder_only && !rows.finishes_prompt && rows.samples));
}

TEST_CASE("any chunking covers every row once, finishes the prompt once and samples once") {
  std::mt19937_64 random(11);
  MESSAGE("seed 11");
  for (int round = 0; round < 1'000; ++round) {
    PrefillSpan span{.prompt = static_cast<Position>(1 + random() % 1'000),
                     .total = 0,
                     .mode = random() % 2 == 0 ? BasisMode::kExact : BasisMode::kBounded};
    span.total = span.prompt + static_cast<Position>(random() % 50);
    int finished = 0;
    int sampled = 0;
    Position done = 0;
    while (done < span.total) {
      const Position room = chunk_border(span, done) - done;
      const PrefillRows rows = prefill_rows(
          span, done, 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(room)));
      REQUIRE(rows.first == done);
      REQUIRE(rows.encoder_only == (span.mode == BasisMode::kBounded && done < span.prompt));
      done += rows.count;
      finished += rows.finishes_prompt ? 1 : 0;
      sampled += rows.samples ? 1 : 0;
    }
    REQUIRE(finished == (span.mode == BasisMode::kBounded ? 1 : 0));
    REQUIRE(sampled == 1);
  }
}
