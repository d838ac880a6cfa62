// Blocks of a real model go through the store's files, a power loss and other processes, and come
// back bit for bit: greedy answers behind them are those of runs without.
#include <chrono>
#include <doctest/doctest.h>
#include <vector>

#include "tests/sim/kv_sessions.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::seconds;

namespace {

constexpr NodeId kFirstPrefill{1};
constexpr NodeId kSecondPrefill{2};

DeviceModel guppy() {
  DeviceModel model;
  model.weights = built_in_model("guppy").value();
  return model;
}

WorldSetup keeping(const DeviceModel& model) {
  WorldSetup setup = setup_of({kFront, kPrefill, kPrefill, kDecode}, 1);
  setup.model = model;
  setup.size.blocks = 16;
  setup.keeps_kv = true;
  setup.configure = [](Config& config) { config.mutable_kv()->set_tail_bytes(0); };
  return setup;
}

testing::Wanted greedy(BasisMode mode) {
  testing::Wanted wanted = story(1, 1000, mode, 16);
  wanted.sampling.temperature = 0;
  wanted.sampling.ignore_eos = true;
  return wanted;
}

// Whoever wrote blocks is gone, and others read what is on the disk.
void replace_prefill(World& world) {
  world.lose_power(kFirstPrefill);
  world.kill(kSecondPrefill);
  world.restart(kFirstPrefill);
  world.restart(kSecondPrefill);
  REQUIRE(world.run_until_whole());
  world.run_for(seconds(3));
}

}  // namespace

TEST_CASE("greedy exact answers behind blocks of processes that died are those of a run without") {
  const DeviceModel model = guppy();
  World world(keeping(model));
  REQUIRE(world.run_until_whole());
  const testing::Wanted wanted = greedy(BasisMode::kExact);
  const testing::Answer cold = ask(world, wanted);
  CHECK(cold.basis->hit == 0);
  replace_prefill(world);
  const testing::Answer warm = ask(world, wanted);
  CHECK(warm.basis->hit == 896);
  CHECK(warm.tokens == cold.tokens);
  CHECK(warm.tokens == true_answer(model, wanted, {{0, *cold.basis}}, world.context()));
  CHECK(world.kv_truth().violations().empty());
}

TEST_CASE("greedy bounded answers behind blocks of processes that died follow from those blocks") {
  const DeviceModel model = guppy();
  World world(keeping(model));
  REQUIRE(world.run_until_whole());
  const testing::Wanted wanted = greedy(BasisMode::kBounded);
  ask(world, wanted);
  const testing::Answer warm = ask(world, wanted);
  replace_prefill(world);
  const testing::Answer again = ask(world, wanted);
  CHECK(again.basis->hit == 896);
  CHECK(again.basis == warm.basis);
  CHECK(again.tokens == warm.tokens);
  auto bases = again.bases;
  REQUIRE(world.kv_truth().add_loaded(bases));
  CHECK(again.tokens == true_answer(model, wanted, bases, world.context()));
  CHECK(world.kv_truth().violations().empty());
}
