// Times and bytes of a step, by hand and against what was simulated.
#include "actors/policy/fleet_step.h"

#include <doctest/doctest.h>

#include "tests/policy/fleet_machines.h"

using namespace shoal;
using shoal::testing::rack_gpu;

namespace {

constexpr PlanLayout kGroup{64, 64};
constexpr double kContext = 122'000;

PlanStep decode(PlanLayout layout, double streams, int drafts = 3) {
  return decode_step(v41_flash(), rack_gpu(), layout, {streams, drafts, kContext}, 0.15);
}

PlanStep prefill(PlanLayout layout, double rows) {
  return prefill_step(v41_flash(), rack_gpu(), layout, {rows, kContext, 4'900}, 0.15);
}

}  // namespace

TEST_CASE("a GPU holds the experts of its share and the redundant ones") {
  const PlanModel model = v41_flash();
  CHECK(expert_slots(model, 64, kDecodeSlots) == 7);
  CHECK(expert_slots(model, 128, kDecodeSlots) == 4);
  CHECK(expert_slots(model, 8, kPrefillSlots) == 52);
  CHECK(expert_slots(model, 1, kPrefillSlots) == 384);
  // Read in a decode step: 5.3 GB at EP64, 3.0 at EP128, 36.9 at EP8.
  const double slot = model.layers * model.expert_bytes;
  CHECK(7 * slot == doctest::Approx(5.3e9).epsilon(0.01));
  CHECK(4 * slot == doctest::Approx(3.0e9).epsilon(0.01));
  CHECK(49 * slot == doctest::Approx(36.9e9).epsilon(0.01));
}

TEST_CASE("imbalance of experts is near what was simulated with per-step splits") {
  const PlanModel model = v41_flash();
  CHECK(moe_imbalance(model, 64, 7, 128, 0) == doctest::Approx(1.045).epsilon(0.01));
  CHECK(moe_imbalance(model, 64, 7, 256, 0) == doctest::Approx(1.035).epsilon(0.01));
  CHECK(moe_imbalance(model, 64, 7, 768, 0) == doctest::Approx(1.02).epsilon(0.01));
  CHECK(moe_imbalance(model, 64, 7, 256, 0.15) == doctest::Approx(1.083).epsilon(0.01));
  CHECK(moe_imbalance(model, 128, 4, 256, 0.15) == doctest::Approx(1.145).epsilon(0.03));
  CHECK(moe_imbalance(model, 8, 52, 4'096, 0.15) <= 1.03);
}

TEST_CASE("imbalance grows with EP and drift, falls with rows, and is 1 where nothing is spread") {
  const PlanModel model = v41_flash();
  CHECK(moe_imbalance(model, 128, 4, 256, 0.15) > moe_imbalance(model, 64, 7, 256, 0.15));
  CHECK(moe_imbalance(model, 64, 7, 256, 0.15) > moe_imbalance(model, 64, 7, 256, 0.05));
  CHECK(moe_imbalance(model, 64, 7, 64, 0.15) > moe_imbalance(model, 64, 7, 256, 0.15));
  CHECK(moe_imbalance(model, 1, 384, 256, 0.15) == 1);
  CHECK(moe_imbalance(model, 64, 7, 0, 0.15) == 1);
}

TEST_CASE("what one row sends in a decode step is about 92 KB a layer, 3.7 MB in all") {
  // 420 rows of a GPU: 1.5 GB, at three quarters of 900 GB/s.
  const PlanStep step = decode_step(v41_flash(), rack_gpu(), kGroup, {420, 0, 1'000}, 0.15);
  CHECK(static_cast<double>(step.links.count()) ==
        doctest::Approx(420 * 3.7e6 / (0.75 * 900e9) * 1e9).epsilon(0.05));
}

TEST_CASE("beyond its domain a group is as slow as the links between domains") {
  CHECK(decode({128, 128}, 100).links > 4 * decode({64, 64}, 100).links);
}

TEST_CASE(
    "a step is the longer of work and links, stretched by imbalance, and what nothing hides") {
  const PlanStep step = decode(kGroup, 100);
  const auto longest = std::max(step.attention + step.experts, step.links);
  CHECK(static_cast<double>((step.total - step.serial).count()) ==
        doctest::Approx(static_cast<double>(longest.count()) * step.moe_lb));
  CHECK(step.serial == std::chrono::milliseconds(8));
}

TEST_CASE("more streams, drafts, context and rows never make a step shorter") {
  CHECK(decode(kGroup, 200).total > decode(kGroup, 100).total);
  CHECK(decode(kGroup, 100, 5).total > decode(kGroup, 100, 3).total);
  CHECK(prefill({4, 4}, 8'192).total > prefill({4, 4}, 4'096).total);
  const PlanStep near = decode_step(v41_flash(), rack_gpu(), kGroup, {100, 3, 1'000}, 0.15);
  CHECK(decode(kGroup, 100).total > near.total);
}

TEST_CASE("a split rank takes its attention's FLOP apart and pays for sums") {
  const PlanStep whole = decode({8, 8}, 100);
  const PlanStep split = decode({8, 4}, 200);  // the same streams on each GPU
  CHECK(split.links > whole.links);
  CHECK(static_cast<double>(split.attention.count()) ==
        doctest::Approx(static_cast<double>(whole.attention.count())).epsilon(0.05));
  CHECK(decode_weight_bytes(v41_flash(), {8, 4}) < decode_weight_bytes(v41_flash(), {8, 8}));
}

TEST_CASE("weights of prefill at EP2, 4 and 8 are 145, 72 and 36 GB of experts and the rest") {
  const PlanModel model = v41_flash();
  const double rest = model.dense_bytes + model.head_bytes + model.embed_bytes;
  const double redundant = kPrefillSlots * model.layers * model.expert_bytes;
  CHECK(redundant == doctest::Approx(3.0e9).epsilon(0.01));
  CHECK(prefill_weight_bytes(model, {2, 2}) - rest - redundant ==
        doctest::Approx(145e9).epsilon(0.01));
  CHECK(prefill_weight_bytes(model, {4, 4}) - rest - redundant ==
        doctest::Approx(72e9).epsilon(0.01));
  CHECK(prefill_weight_bytes(model, {8, 8}) - rest - redundant ==
        doctest::Approx(36e9).epsilon(0.01));
}

TEST_CASE("accepted tokens are one and the drafts that survive") {
  PlanWorkload workload;
  workload.survival = {0.84, 0.67, 0.50, 0.35, 0.25};
  CHECK(accepted_tokens(workload, 0) == 1);
  CHECK(accepted_tokens(workload, 5) == doctest::Approx(3.61));
  CHECK(accepted_tokens(workload, 99) == doctest::Approx(3.61));
}

TEST_CASE("a full image costs 2.5 times what its patches alone predict") {
  CHECK(image_flops(1) == doctest::Approx(0.81e9).epsilon(0.01));
  CHECK(image_flops(9'216) / (9'216 * image_flops(1)) == doctest::Approx(2.5).epsilon(0.01));
}

TEST_CASE("a machine that is described with zeros takes for ever and divides by nothing") {
  const PlanStep step = decode_step(v41_flash(), {}, kGroup, {100, 3, kContext}, 0.15);
  CHECK(step.total > std::chrono::hours(1));
  CHECK(decode(kGroup, 0).total > Nanos{0});
}
