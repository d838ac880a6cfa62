// Experts on nodes of their own, and on shards of each process: the same tokens as on one device,
// whatever dies.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <utility>
#include <vector>

#include "actors/expert_shards.h"
#include "actors/expert_source.h"
#include "tests/sim/expert_worlds.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

bool says(const World& world, const std::string& words) {
  return std::any_of(world.events().begin(), world.events().end(), [&words](const auto& line) {
    return line.find(words) != std::string::npos;
  });
}

std::int64_t failed_at(World& world, std::uint32_t node) {
  return world.experts(NodeId{node})->exchange_use().failed;
}

std::int64_t experts_of(World& world, std::uint32_t node, int shards) {
  std::int64_t experts = 0;
  for (int shard = 0; shard < shards; ++shard) {
    experts += world.experts(NodeId{node})->use(static_cast<std::uint32_t>(shard)).experts;
  }
  return experts;
}

}  // namespace

TEST_CASE("experts on two nodes of their own give the tokens of one device, each with its part") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    World world(guppy({kFrontPrefill, kDecode, kExperts, kExperts}, seed, 2));
    REQUIRE(world.run_until_whole());
    const auto asked = ask(world, 4);
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(world, asked);
    constexpr std::int64_t kAll = 6 * 16 + 3 * 8;
    CHECK(experts_of(world, 2, 2) == kAll / 2);
    CHECK(experts_of(world, 3, 2) == kAll / 2);
    CHECK(world.experts(NodeId{1})->parts().source->exchange_use().combined > 0);
  }
}

TEST_CASE("a killed node of experts costs a pause, and its successor serves the placement again") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    World world(guppy({kFrontPrefill, kDecode, kExperts, kExperts}, seed, 1));
    REQUIRE(world.run_until_whole());
    const auto asked = ask(world, 4);
    world.run_for(milliseconds(30));
    const auto is_asked = [&world] {
      return world.experts(NodeId{0})->exchange_use().dispatches +
                 world.experts(NodeId{1})->exchange_use().dispatches >
             0;
    };
    REQUIRE(world.run(is_asked, seconds(5)));
    world.kill(NodeId{3});
    world.run_for(seconds(5));
    CHECK_FALSE(world.all_over());
    CHECK(world.node(NodeId{1}).health().state != PartState::kOk);
    world.restart(NodeId{3});
    REQUIRE(world.run_until_all_over(seconds(60)));
    REQUIRE(world.run_until_whole());
    check_truth(world, asked);
    CHECK(failed_at(world, 0) + failed_at(world, 1) >= 1);
  }
}

TEST_CASE("where every expert has a replica, answers go on without a node of experts") {
  World world(guppy({kFrontPrefill, kDecode, kExperts, kExperts}, 1, 1, 8));
  REQUIRE(world.run_until_whole());
  ExpertSource& source = *world.experts(NodeId{1})->parts().source;
  std::vector<ExpertLayer> layers = source.placement()->layers;
  for (ExpertLayer& layer : layers) {
    for (std::int32_t slot = 0; slot < layer.shape.all_slots(); ++slot) {
      layer.expert_at[static_cast<std::size_t>(slot)] =
          slot % layer.shape.slots % layer.shape.experts;
    }
  }
  const EpochId epoch = source.place(std::move(layers)).value();
  REQUIRE(world.run([&] { return source.placement()->epoch == epoch; }, seconds(5)));
  world.kill(NodeId{3});
  world.run_for(seconds(3));
  const auto asked = ask(world, 4);
  REQUIRE(world.run_until_all_over(seconds(60)));
  check_truth(world, asked);
}

TEST_CASE("a placement moves experts between nodes while answers run, and no token changes") {
  World world(guppy({kFrontPrefill, kDecode, kExperts, kExperts}, 1, 2, 1));
  REQUIRE(world.run_until_whole());
  const auto asked = ask(world, 5);
  ExpertSource& source = *world.experts(NodeId{1})->parts().source;
  EpochId epoch;
  for (int round = 0; round < 5; ++round) {
    std::vector<ExpertLayer> layers = source.placement()->layers;
    for (ExpertLayer& layer : layers) {
      std::shuffle(layer.expert_at.begin(), layer.expert_at.end(), world.random());
    }
    epoch = source.place(std::move(layers)).value();
    REQUIRE(world.run([&] { return source.placement()->epoch == epoch; }, seconds(5)));
  }
  REQUIRE(world.run_until_all_over(seconds(60)));
  check_truth(world, asked);
  // The other source learns of it from the shards.
  const auto& other = *world.experts(NodeId{0})->parts().source;
  CHECK(world.run([&] { return other.placement()->epoch == epoch; }, seconds(5)));
}

TEST_CASE("a node of experts with another arithmetic is refused by name and never asked") {
  // The front has no arithmetic, and lets both in.
  WorldSetup setup = guppy({kFront, {.prefill = true, .decode = true}, kExperts, kExperts}, 1, 1);
  setup.identities = {{NodeId{0}, {"m", ""}},
                      {NodeId{1}, {"m", "cpu.1"}},
                      {NodeId{2}, {"m", "cpu.1"}},
                      {NodeId{3}, {"m", "cpu.2"}}};
  World world(setup);
  CHECK_FALSE(world.run_until_whole(seconds(5)));
  CHECK(says(world, "node n3 (cpu.2) runs another arithmetic than node n1 (cpu.1)"));
  CHECK(world.experts(NodeId{1})->parts().source->placement() == nullptr);
  CHECK(world.experts(NodeId{1})->parts().source->exchange_use().hops == 0);
}

TEST_CASE("a shard of the process that dies under load costs its step and no token") {
  std::int64_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    World world(guppy({kAllRoles}, seed, 3));
    REQUIRE(world.run_until_whole());
    const auto asked = ask(world, 4);
    for (int i = 0; i < 12; ++i) {
      world.run_for(milliseconds(7));
      world.break_part(NodeId{0}, "expert_shard." + std::to_string(i % 3));
    }
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(world, asked);
    CHECK(world.run([&world] { return count_events(world, "worker.replaced") == 12; }, seconds(5)));
    lost += failed_at(world, 0);
  }
  CHECK(lost > 0);  // some died under a step
}
