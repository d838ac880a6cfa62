// How much of a hit is worth taking, and what then fixes the request's numbers.
#include "actors/policy/kv_reuse.h"

#include <doctest/doctest.h>

using namespace shoal;

namespace {

constexpr Position kWindow = 128;
constexpr int kLayers = 6;

KvReuse reuse(BasisMode mode, Position prompt, Position available) {
  return plan_reuse(mode, prompt, available, kWindow, kLayers);
}

}  // namespace

TEST_CASE("a bounded hit runs its last window again, a hit of one window is none") {
  CHECK(reuse(BasisMode::kBounded, 1000, 896) == KvReuse{896, 768});
  CHECK(reuse(BasisMode::kBounded, 1000, 256) == KvReuse{256, 128});
  CHECK(reuse(BasisMode::kBounded, 1000, 128) == KvReuse{});
  CHECK(reuse(BasisMode::kBounded, 1000, 0) == KvReuse{});
}

TEST_CASE("an exact hit runs a window of every layer again, and a shorter one is none") {
  CHECK(reuse(BasisMode::kExact, 1000, 896) == KvReuse{896, 128});
  CHECK(reuse(BasisMode::kExact, 1000, 768) == KvReuse{});
}

TEST_CASE("the last token of a prompt is computed, whatever is there") {
  CHECK(reuse(BasisMode::kBounded, 896, 896) == KvReuse{768, 640});
  CHECK(reuse(BasisMode::kBounded, 897, 896) == KvReuse{896, 768});
  CHECK(reuse(BasisMode::kBounded, 1, 896) == KvReuse{});
}

TEST_CASE("the decoder half starts one window before the prompt's end, windows at the replay") {
  const Basis cold = first_basis(BasisMode::kBounded, 300, kWindow);
  CHECK((cold.hit == 0 && cold.replay_floor == 0 && cold.tail_start == 172));
  CHECK(first_basis(BasisMode::kBounded, 100, kWindow).tail_start == 0);
  const Basis warm = first_basis(BasisMode::kBounded, 1000, kWindow, {896, 768}, 7);
  CHECK((warm.hit == 896 && warm.replay_floor == 768 && warm.tail_start == 872));
  CHECK(warm.lineage == 7);
}

TEST_CASE("an exact basis looks back as far as a run without a hit") {
  const Basis exact = first_basis(BasisMode::kExact, 1000, kWindow, {896, 128});
  CHECK((exact.hit == 896 && exact.replay_floor == 0 && exact.tail_start == 0));
}
