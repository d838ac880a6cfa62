// Placements of experts on shards: they change while steps run, or change nothing.
#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

#include "actors/expert_shards.h"
#include "actors/shard_group.h"
#include "tests/actors/expert_bed.h"
#include "tests/transport/step_scheduler.h"
#include "tests/transport/waits.h"

namespace shoal {

TEST_CASE("experts move while steps run, and neither a step nor a bit is lost") {
  const std::vector<Golden> texts = golden_prompts(8);
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  Bed bed({.shards = 4, .redundant = 1});
  std::uint64_t moves = 0;
  bed.between = [&] {
    if (++moves % 5 == 0) {
      REQUIRE(bed.shards->place(drawn_layers(bed.shards->placement().layers, moves)).has_value());
    }
  };
  CHECK(all_logits(bed, texts, 4) == expected);
  CHECK(bed.shards->placement().epoch.value > 20);
}

TEST_CASE("a placement that does not serve all experts, or does not fit, changes nothing") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  Bed bed({.shards = 2});
  auto lacking = bed.shards->placement().layers;
  lacking[4].expert_at[3] = kEmptySlot;
  CHECK(bed.shards->place(lacking).error().code == Code::kInvalid);
  auto large = *even_layers(bed.device->make_expert_engine({}).value()->model(), 2, 5);
  CHECK(bed.shards->place(large).error().code == Code::kNoCapacity);
  CHECK(bed.shards->placement().epoch == EpochId{1});
  CHECK(all_logits(bed, texts, 1) == all_logits(local, texts, 1));
}

TEST_CASE("a placement that is not loaded in time changes nothing, and the next one works") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  Bed bed({.shards = 4, .redundant = 1});
  const auto held = bed.shards->use(1);
  const auto layers = drawn_layers(bed.shards->placement().layers, 7);
  bed.time.run_for(std::chrono::seconds(1));
  const auto late = bed.shards->place(layers, bed.time.now() - Nanos{1});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == Code::kDeadline);
  CHECK(bed.shards->placement().epoch == EpochId{1});
  CHECK(bed.shards->use(1).weights == held.weights);
  REQUIRE(bed.shards->place(layers, bed.time.now()).has_value());
  CHECK(bed.shards->placement().epoch == EpochId{2});
  CHECK(all_logits(bed, texts, 1) == all_logits(local, texts, 1));
}

TEST_CASE("what a placement that fails half-way had loaded is let go, and steps notice nothing") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  const Bytes needed = Bed({.shards = 4}).shards->use(0).weights;
  // Room for a fifth of the experts beside those that are served.
  Bed bed({.shards = 4, .weights = Bytes{needed.value * 6 / 5}});
  const auto before = bed.shards->placement().layers;
  const auto others = drawn_layers(before, 3);
  for (int again = 0; again < 3; ++again) {
    const auto placed = bed.shards->place(others);
    REQUIRE_FALSE(placed.has_value());
    CHECK(placed.error().code == Code::kNoCapacity);
    CHECK(bed.shards->placement().epoch == EpochId{1});
    for (std::uint32_t shard = 0; shard < 4; ++shard) {
      CHECK(bed.shards->use(shard).weights == needed);
    }
  }
  CHECK(all_logits(bed, texts, 2) == expected);
  REQUIRE(bed.shards->place(before).has_value());
  CHECK(all_logits(bed, texts, 3) == expected);
}

TEST_CASE("no placement is taken from steps that are still on the way by it") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  Bed bed({.shards = 4, .redundant = 1});
  int refused = 0;
  std::uint64_t seed = 0;
  bed.between = [&] {
    const auto layers = bed.shards->placement().layers;
    CHECK(bed.shards->place(drawn_layers(layers, ++seed)).has_value());
    const auto second = bed.shards->place(drawn_layers(layers, ++seed));
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == Code::kUnavailable);
    ++refused;
  };
  const auto logits = all_logits(bed, texts, 1);
  bed.between = nullptr;
  CHECK(logits == all_logits(local, texts, 1));
  CHECK(refused > 20);
  CHECK(bed.shards->exchange_use().failed == 0);
}

TEST_CASE("placements from one thread and shards that die and come back from another end well") {
  const std::vector<Golden> texts = golden_prompts(1);
  Bed local;
  Bed bed({.shards = 4, .redundant = 1});
  const auto layers = bed.shards->placement().layers;
  std::atomic<int> placed = 0;
  std::thread placing([&] {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      placed += bed.shards->place(drawn_layers(layers, seed)).has_value() ? 1 : 0;
    }
  });
  for (std::uint32_t i = 0; i < 60; ++i) {
    bed.shards->end(i % 4);
    CHECK(bed.shards->restore(i % 4).has_value());
  }
  placing.join();
  CHECK(placed == 40);
  CHECK(bed.shards->placement().epoch == EpochId{41});
  CHECK(all_logits(bed, texts, 1) == all_logits(local, texts, 1));
}

TEST_CASE("as a group to balance, shards load in the background and say what came of it") {
  Bed bed({.shards = 4, .redundant = 1});
  testing::StepScheduler background;
  ShardGroup group(*bed.shards, background.port());
  const auto layers = drawn_layers(group.placement().layers, 5);
  std::vector<Result<EpochId>> ends;
  const auto place = [&](std::vector<ExpertLayer> wanted, Instant deadline) {
    group.place(std::move(wanted), deadline, [&](Result<EpochId> end) { ends.push_back(end); });
  };
  place(layers, bed.time.now());
  CHECK(ends.empty());
  CHECK(group.placement().epoch == EpochId{1});
  background.run_all();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0] == EpochId{2});
  CHECK(group.placement().layers[4].expert_at == layers[4].expert_at);
  bed.time.run_for(std::chrono::seconds(1));
  place(drawn_layers(layers, 6), bed.time.now() - Nanos{1});
  background.run_all();
  REQUIRE(ends.size() == 2);
  CHECK(ends[1].error().code == Code::kDeadline);
  CHECK(group.placement().epoch == EpochId{2});
  std::int64_t experts = 0;
  Bytes weights{0};
  for (std::uint32_t shard = 0; shard < 4; ++shard) {
    experts += bed.shards->use(shard).experts;
    weights = weights + bed.shards->use(shard).weights;
  }
  CHECK(group.expert_bytes() == Bytes{weights.value / experts});
}

}  // namespace shoal
