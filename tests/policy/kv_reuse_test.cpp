// How much of what is there is worth taking, which rows run behind it, and what then fixes the
// request's numbers.
#include "actors/policy/kv_reuse.h"

#include <doctest/doctest.h>
#include <random>

using namespace shoal;

namespace {

constexpr Reach kReach{.window = 128, .encoder_layers = 3, .decoder_layers = 3};  // guppy's

KvReuse first(BasisMode mode, Position prompt, Position available) {
  return plan_reuse({mode, prompt, prompt, {}}, available, kReach);
}

KvReuse later(const Basis& basis, Position prompt, Position total, Position available) {
  return plan_reuse({basis.mode, prompt, total, basis}, available, kReach);
}

}  // namespace

TEST_CASE("a bounded hit runs its last window again, a hit of one window is none") {
  CHECK(first(BasisMode::kBounded, 1000, 896) == KvReuse{896, 768, 768, 872, 872});
  CHECK(first(BasisMode::kBounded, 1000, 256) == KvReuse{256, 128, 128, 872, 872});
  CHECK(first(BasisMode::kBounded, 1000, 128) == KvReuse{0, 0, 0, 872, 872});
  CHECK(first(BasisMode::kBounded, 1000, 0) == KvReuse{0, 0, 0, 872, 872});
}

TEST_CASE("an exact hit runs as far back as its windows reach, a short one from its first row") {
  CHECK(first(BasisMode::kExact, 1000, 896) == KvReuse{896, 232, 360, 616, 744});
  CHECK(first(BasisMode::kExact, 1000, 512) == KvReuse{512, 128, 256, 616, 744});
  CHECK(first(BasisMode::kExact, 1000, 384) == KvReuse{384, 0, 0, 616, 744});
  CHECK(first(BasisMode::kExact, 420, 384) == KvReuse{384, 0, 0, 36, 164});
}

TEST_CASE("of an exact prompt the decoder half runs only what its last row reaches") {
  CHECK(first(BasisMode::kExact, 1000, 0) == KvReuse{0, 0, 0, 616, 744});
  CHECK(first(BasisMode::kExact, 384, 0) == KvReuse{});
}

TEST_CASE("the last token of a prompt is computed, whatever is there") {
  CHECK(first(BasisMode::kBounded, 896, 896).hit == 768);
  CHECK(first(BasisMode::kBounded, 897, 896).hit == 896);
  CHECK(first(BasisMode::kBounded, 1, 896) == KvReuse{});
  CHECK(first(BasisMode::kExact, 896, 896).hit == 768);
}

TEST_CASE("a bounded request goes on behind blocks that any run would have computed") {
  const Basis cold = first_basis(BasisMode::kBounded, 1000, 128);
  CHECK(later(cold, 1000, 2000, 1920) == KvReuse{1920, 1232, 1360, 1616, 1744});
  CHECK(later(cold, 1000, 1100, 1024) == KvReuse{1024, 332, 460, 872, 872});
}

TEST_CASE("a later attempt that saves nothing loads nothing") {
  const Basis cold = first_basis(BasisMode::kBounded, 1000, 128);
  CHECK(later(cold, 1000, 1010, 384) == KvReuse{0, 0, 0, 872, 872});
  CHECK(later(cold, 300, 310, 256).hit == 0);
}

TEST_CASE("a bounded request keeps the hit and the replay it began with, or begins anew") {
  const Basis warm = first_basis(BasisMode::kBounded, 1000, 128, {896, 768, 768, 872, 872}, 7);
  CHECK(later(warm, 1000, 1010, 896) == KvReuse{896, 768, 768, 872, 872});
  CHECK(later(warm, 1000, 1010, 768) == KvReuse{0, 0, 0, 872, 872});
}

TEST_CASE("the decoder half starts one window before the prompt's end, windows at the replay") {
  const Basis cold = first_basis(BasisMode::kBounded, 300, 128);
  CHECK((cold.hit == 0 && cold.replay_floor == 0 && cold.tail_start == 172));
  CHECK(first_basis(BasisMode::kBounded, 100, 128).tail_start == 0);
  const Basis warm = first_basis(BasisMode::kBounded, 1000, 128, {896, 768, 768, 872, 872}, 7);
  CHECK((warm.hit == 896 && warm.replay_floor == 768 && warm.tail_start == 872));
  CHECK(warm.lineage == 7);
}

TEST_CASE("an exact basis looks back as far as a run without a hit") {
  const Basis exact = first_basis(BasisMode::kExact, 1000, 128, {896, 232, 360, 616, 744});
  CHECK((exact.hit == 896 && exact.replay_floor == 0 && exact.tail_start == 0));
}

TEST_CASE("whatever is there, cut windows end where whole ones are needed") {
  std::mt19937_64 random(12);
  MESSAGE("seed 12");
  for (int round = 0; round < 10'000; ++round) {
    const auto prompt = static_cast<Position>(1 + random() % 3000);
    const Position total = prompt + static_cast<Position>(random() % 2000);
    const auto available = static_cast<Position>(random() % 40) * 128;
    Basis basis = first_basis(random() % 2 == 0 ? BasisMode::kExact : BasisMode::kBounded,
                              prompt,
                              kReach.window,
                              first(BasisMode::kBounded, prompt, 0));
    const KvReuse reuse = later(basis, prompt, total, available);
    REQUIRE(reuse.hit <= available);
    REQUIRE(reuse.hit < total);
    REQUIRE(reuse.start <= reuse.hit);
    REQUIRE(reuse.start <= reuse.decoder_start);
    const Position encoder = kReach.encoder_layers * kReach.window;
    const Position decoder = kReach.decoder_layers * kReach.window;
    REQUIRE((reuse.start == 0 || reuse.start <= reuse.hit - encoder));
    REQUIRE((reuse.start == 0 || reuse.start <= total - encoder - decoder));
    REQUIRE(reuse.decoder_start <= std::max(basis.tail_start, total - decoder));
    REQUIRE(reuse.encoder_whole <= total);
    REQUIRE(reuse.decoder_whole <= total);
  }
}
