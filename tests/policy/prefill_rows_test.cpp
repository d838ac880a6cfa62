// Which rows a prefill runs, through which half of the model.
#include "actors/policy/prefill_rows.h"

#include <doctest/doctest.h>
#include <random>

using namespace shoal;

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

TEST_CASE("behind an exact hit the windows are rebuilt first, and nothing below it counts after") {
  const PrefillSpan span{
      .prompt = 1000, .total = 1010, .mode = BasisMode::kExact, .hit = 896, .start = 128};
  CHECK(chunk_border(span, 128) == 896);
  CHECK(chunk_border(span, 896) == 1010);
  const PrefillRows rebuilt = prefill_rows(span, 128, 768);
  CHECK((rebuilt.begins && rebuilt.rebuilds_windows && !rebuilt.samples));
  const PrefillRows rest = prefill_rows(span, 896, 114);
  CHECK((!rest.begins && !rest.rebuilds_windows && rest.samples));
}

TEST_CASE("a bounded hit is replayed with the rest of the prompt") {
  const PrefillSpan span{
      .prompt = 1000, .total = 1000, .mode = BasisMode::kBounded, .hit = 896, .start = 768};
  CHECK(chunk_border(span, 768) == 1000);
  const PrefillRows rows = prefill_rows(span, 768, 232);
  CHECK((rows.begins && rows.encoder_only && rows.finishes_prompt && rows.samples));
  CHECK_FALSE(rows.rebuilds_windows);
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
