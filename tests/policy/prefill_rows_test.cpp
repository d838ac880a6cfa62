// Which rows a prefill runs, through which half of the model.
#include "actors/policy/prefill_rows.h"

#include <doctest/doctest.h>
#include <random>

using namespace shoal;

namespace {

constexpr Reach kReach{.window = 128, .encoder_layers = 3, .decoder_layers = 3};

struct Prefill {
  PrefillSpan span;
  Basis basis;

  PrefillRows rows(Position done, std::int64_t count) const {
    return prefill_rows(span, basis, done, count);
  }

  Position border(Position done) const { return chunk_border(span, done); }
};

Prefill first(BasisMode mode, Position prompt, Position total, Position available = 0) {
  const KvReuse reuse = plan_reuse({mode, prompt, total, {}}, available, kReach);
  return {{prompt, total, mode, reuse}, first_basis(mode, prompt, kReach.window, reuse)};
}

Prefill later(BasisMode mode, Position prompt, Position total, Position available) {
  const Basis basis = first(mode, prompt, prompt).basis;
  return {{prompt, total, mode, plan_reuse({mode, prompt, total, basis}, available, kReach)},
          basis};
}

}  // namespace

TEST_CASE("a bounded prompt runs the encoder half, finishes once, and samples") {
  const Prefill prefill = first(BasisMode::kBounded, 300, 300);
  CHECK(prefill.border(0) == 300);
  const PrefillRows begin = prefill.rows(0, 256);
  CHECK((begin.encoder_only && !begin.finishes_prompt && !begin.samples));
  const PrefillRows last = prefill.rows(256, 44);
  CHECK((last.encoder_only && last.finishes_prompt && last.samples));
  CHECK(last.decoder_floor == 172);
}

TEST_CASE("tokens the client already has follow a bounded prompt as decode rows") {
  const Prefill prefill = later(BasisMode::kBounded, 300, 310, 0);
  CHECK(prefill.border(256) == 300);
  const PrefillRows prompt_end = prefill.rows(256, 44);
  CHECK((prompt_end.finishes_prompt && !prompt_end.samples));
  CHECK(prefill.border(300) == 310);
  const PrefillRows forced = prefill.rows(300, 10);
  CHECK((!forced.encoder_only && !forced.finishes_prompt && forced.samples));
}

TEST_CASE("behind an exact hit each half sees what is cut off only until its windows are whole") {
  const Prefill prefill = first(BasisMode::kExact, 1000, 1000, 896);
  REQUIRE(prefill.span.reuse == KvReuse{896, 232, 360, 616, 744});
  CHECK(prefill.border(232) == 360);
  const PrefillRows cut = prefill.rows(232, 128);
  CHECK((cut.begins && cut.encoder_only && cut.encoder_floor == 232));
  CHECK(prefill.border(360) == 616);
  CHECK((prefill.rows(360, 256).encoder_only && prefill.rows(360, 256).encoder_floor == 0));
  CHECK(prefill.border(616) == 744);
  const PrefillRows decoder = prefill.rows(616, 128);
  CHECK((!decoder.encoder_only && !decoder.finishes_prompt && decoder.decoder_floor == 616));
  CHECK(prefill.border(744) == 1000);
  const PrefillRows rest = prefill.rows(744, 256);
  CHECK((rest.samples && rest.encoder_floor == 0 && rest.decoder_floor == 0));
}

TEST_CASE("a bounded hit is replayed with the rest of the prompt") {
  const Prefill prefill = first(BasisMode::kBounded, 1000, 1000, 896);
  CHECK(prefill.border(768) == 1000);
  const PrefillRows rows = prefill.rows(768, 232);
  CHECK((rows.begins && rows.encoder_only && rows.finishes_prompt && rows.samples));
  CHECK((rows.encoder_floor == 768 && rows.decoder_floor == 872));
}

TEST_CASE("an exact prompt no longer than its reach runs every layer, into forced tokens") {
  const Prefill prefill = later(BasisMode::kExact, 300, 310, 0);
  CHECK(prefill.border(0) == 310);
  const PrefillRows rows = prefill.rows(256, 54);
  CHECK((!rows.encoder_only && !rows.finishes_prompt && rows.samples));
}

TEST_CASE("far behind its prompt a bounded answer goes on without running the prompt's end") {
  const Prefill prefill = later(BasisMode::kBounded, 1000, 2000, 1920);
  REQUIRE(prefill.span.reuse == KvReuse{1920, 1232, 1360, 1616, 1744});
  CHECK(prefill.border(1232) == 1360);
  CHECK(prefill.border(1360) == 1616);
  CHECK(prefill.rows(1360, 256).encoder_only);
  CHECK_FALSE(prefill.rows(1360, 256).finishes_prompt);
  CHECK(prefill.rows(1744, 256).decoder_floor == 872);
}

TEST_CASE("near its prompt's end a bounded answer runs the kept rows that its decoder reaches") {
  const Prefill prefill = later(BasisMode::kBounded, 1000, 1300, 1280);
  REQUIRE(prefill.span.reuse == KvReuse{1280, 532, 660, 916, 1044});
  CHECK(prefill.border(660) == 1000);
  const PrefillRows prompt_end = prefill.rows(660, 340);
  CHECK((prompt_end.finishes_prompt && prompt_end.decoder_floor == 916));
  CHECK(prefill.border(1000) == 1044);
  CHECK(prefill.rows(1000, 44).decoder_floor == 916);
  CHECK(prefill.rows(1044, 256).decoder_floor == 872);
}

TEST_CASE("any chunking covers every row once, finishes the prompt at most once and samples once") {
  std::mt19937_64 random(11);
  MESSAGE("seed 11");
  for (int round = 0; round < 1'000; ++round) {
    const auto mode = random() % 2 == 0 ? BasisMode::kExact : BasisMode::kBounded;
    const auto prompt = static_cast<Position>(1 + random() % 1'000);
    const Prefill prefill = later(mode,
                                  prompt,
                                  prompt + static_cast<Position>(random() % 1'000),
                                  static_cast<Position>(random() % 16) * 128);
    const PrefillSpan& span = prefill.span;
    int finished = 0;
    int sampled = 0;
    Position done = span.reuse.start;
    while (done < span.total) {
      const Position room = prefill.border(done) - done;
      const PrefillRows rows = prefill.rows(
          done, 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(room)));
      REQUIRE(rows.first == done);
      REQUIRE((rows.samples || rows.count > 0));
      done += rows.count;
      finished += rows.finishes_prompt ? 1 : 0;
      sampled += rows.samples ? 1 : 0;
    }
    const bool has_prompt_end =
        mode == BasisMode::kBounded && span.reuse.decoder_start < span.prompt;
    REQUIRE(finished == (has_prompt_end ? 1 : 0));
    REQUIRE(sampled == 1);
  }
}
