// Experts on nodes of their own move by load while answers run: what all nodes with a device give
// to them reaches one balancer, no token changes whatever dies or is lost half-way, and no shard
// keeps more than the placement in force and what moves.
#include <algorithm>
#include <doctest/doctest.h>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "actors/expert_host.h"
#include "actors/expert_source.h"
#include "actors/wire_messages.h"
#include "schemas/wire.pb.h"
#include "tests/sim/expert_worlds.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Nanos kWindow = milliseconds(200);
constexpr NodeId kOwner{0};
// A front without a device, three sources of rows, and shards.
const std::vector<NodeRoles> kNodes = {kFront, kPrefill, kDecode, kDecode, kExperts, kExperts};
constexpr std::uint32_t kSources[] = {1, 2, 3};
constexpr std::uint32_t kHosts[] = {4, 5};
constexpr int kShards = 2;

// Moves cost next to nothing, so that every window with another load is followed.
WorldSetup moving(std::uint64_t seed) {
  WorldSetup setup = guppy(kNodes, seed, kShards, 1);
  setup.configure = [configure = setup.configure](Config& config) {
    configure(config);
    config::Experts& experts = *config.mutable_experts();
    experts.set_window_ms(std::chrono::duration_cast<milliseconds>(kWindow).count());
    experts.set_window_rows(20);
    experts.set_place_ms(1'000);
    experts.set_layer_us(100'000);
    experts.set_move_us(1);
  };
  return setup;
}

ExpertSource& source_of(World& world, std::uint32_t node) {
  return *world.experts(NodeId{node})->parts().source;
}

EpochId in_force(World& world, std::uint32_t node) {
  const auto placement = source_of(world, node).placement();
  return placement == nullptr ? EpochId{} : placement->epoch;
}

bool all_use_one(World& world) {
  return std::ranges::all_of(kSources, [&world](std::uint32_t node) {
    return in_force(world, node) == in_force(world, kSources[0]);
  });
}

std::int64_t metric(World& world, const std::string& name) {
  const std::string text = world.node(kOwner).metrics_text();
  const std::size_t at = text.find("\n" + name + " ");
  REQUIRE(at != std::string::npos);
  return std::stoll(text.substr(at + name.size() + 2));
}

std::int64_t placed(World& world) {
  return metric(world, "shoal_expert_plans_total{end=\"placed\"}");
}

// Experts that the placement gives to the rank, each once.
std::int64_t slots_of(const ExpertPlacementMap& map, std::int32_t rank) {
  std::int64_t held = 0;
  for (const ExpertLayer& layer : map.layers) {
    const auto first = layer.expert_at.begin() + rank * layer.shape.slots;
    std::set<std::int32_t> experts(first, first + layer.shape.slots);
    experts.erase(kEmptySlot);
    held += std::ssize(experts);
  }
  return held;
}

// All shards have what the placement in force gives them, and nothing else.
bool nothing_is_kept(World& world) {
  const auto placement = source_of(world, kSources[0]).placement();
  std::int32_t rank = 0;
  for (const std::uint32_t node : kHosts) {
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      if (world.experts(NodeId{node})->use(shard).experts != slots_of(*placement, rank++)) {
        return false;
      }
    }
  }
  return true;
}

// Answers go on until so many more placements are in force.
void run_through_moves(World& world, std::int64_t moves, std::vector<RequestId>& asked) {
  const std::int64_t before = placed(world);
  for (int round = 0; round < 60 && placed(world) < before + moves; ++round) {
    for (const RequestId request : ask(world, 2)) {
      asked.push_back(request);
    }
    world.run_for(kWindow);
  }
  CHECK(placed(world) >= before + moves);
}

void check_at_rest(World& world, const std::vector<RequestId>& asked) {
  REQUIRE(world.run_until_all_over(seconds(120)));
  REQUIRE(world.run_until_whole());
  check_truth(world, asked);
  CHECK(world.run([&world] { return all_use_one(world) && nothing_is_kept(world); }, seconds(20)));
}

}  // namespace

TEST_CASE("experts of a cluster move by what all its nodes gave them, and no token changes") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    World world(moving(seed));
    REQUIRE(world.run_until_whole());
    std::vector<RequestId> asked;
    run_through_moves(world, 3, asked);
    check_at_rest(world, asked);
    for (const std::uint32_t node : kSources) {
      CHECK(source_of(world, node).exchange_use().failed == 0);
    }
    CHECK(metric(world, "shoal_expert_moves_total") > 0);
    CHECK(metric(world, "shoal_expert_moved_bytes_total") > 0);
    CHECK(metric(world, "shoal_expert_epoch") ==
          static_cast<std::int64_t>(in_force(world, 1).value));
    // Every row is given to one node, and all of them are in the windows of the balancer.
    const std::string host = world.experts(NodeId{4})->metrics_text();
    CHECK(host.find("shoal_expert_loaded_total") != std::string::npos);
    const std::string source = world.node(NodeId{2}).metrics_text();
    CHECK(source.find("shoal_expert_moe_lb{layer=\"0\"}") != std::string::npos);
  }
}

TEST_CASE("a shard has no more slots than those in force and those that move") {
  World world(moving(5));
  REQUIRE(world.run_until_whole());
  std::vector<RequestId> asked;
  std::vector<std::shared_ptr<const ExpertPlacementMap>> maps;
  std::vector<std::int64_t> most(kShards * std::size(kHosts));
  const std::function<void()> look = [&] {
    const auto placement = source_of(world, 1).placement();
    if (placement != nullptr && (maps.empty() || maps.back()->epoch != placement->epoch)) {
      maps.push_back(placement);
    }
    for (std::size_t rank = 0; rank < most.size(); ++rank) {
      ExpertNode& node = *world.experts(NodeId{kHosts[rank / kShards]});
      most[rank] = std::max(most[rank], node.use(rank % kShards).experts);
    }
    world.timeline().after(milliseconds(1), look);
  };
  look();
  run_through_moves(world, 4, asked);
  check_at_rest(world, asked);
  REQUIRE(maps.size() >= 4);
  for (std::size_t rank = 0; rank < most.size(); ++rank) {
    std::int64_t ceiling = 0;
    for (std::size_t i = 1; i < maps.size(); ++i) {
      std::int64_t held = 0;
      for (std::size_t layer = 0; layer < maps[i]->layers.size(); ++layer) {
        std::set<std::int32_t> experts;
        for (const auto& map : {maps[i - 1], maps[i]}) {
          const ExpertLayer& of = map->layers[layer];
          const auto first =
              of.expert_at.begin() + static_cast<std::ptrdiff_t>(rank) * of.shape.slots;
          experts.insert(first, first + of.shape.slots);
        }
        experts.erase(kEmptySlot);
        held += std::ssize(experts);
      }
      ceiling = std::max(ceiling, held);
    }
    CHECK(most[rank] <= ceiling);
  }
}

TEST_CASE("whatever ends at any moment of a move, the next windows move again") {
  struct Victim {
    std::string name;
    std::function<void(World&)> end;
    std::function<void(World&)> back;
  };

  const auto node = [](std::uint32_t n) {
    return Victim{"node " + std::to_string(n),
                  [n](World& world) { world.kill(NodeId{n}); },
                  [n](World& world) { world.restart(NodeId{n}); }};
  };
  const auto part = [](std::uint32_t n, const std::string& name) {
    return Victim{
        name, [n, name](World& world) { world.break_part(NodeId{n}, name); }, [](World&) {}};
  };
  std::int64_t while_loading = 0;
  for (const Victim& victim : {node(5),
                               node(1),
                               node(0),
                               part(0, "ep_balancer"),
                               part(1, "expert_source"),
                               part(4, "expert_shard.1")}) {
    CAPTURE(victim.name);
    for (int after = 0; after < 6; ++after) {
      CAPTURE(after);
      World world(moving(20 + static_cast<std::uint64_t>(after)));
      REQUIRE(world.run_until_whole());
      std::vector<RequestId> asked = ask(world, 6);
      const auto is_loading = [&world] {
        return world.experts(NodeId{5})->loading() || world.experts(NodeId{4})->loading();
      };
      REQUIRE(world.run(is_loading, seconds(20)));
      world.run_for(milliseconds(5 * after));
      while_loading += is_loading() ? 1 : 0;
      victim.end(world);
      world.run_for(milliseconds(400));
      victim.back(world);
      REQUIRE(world.run_until_whole(seconds(30)));
      if (victim.name == "node 0") {
        asked.clear();  // its clients are gone with it
      }
      run_through_moves(world, 1, asked);
      check_at_rest(world, asked);
    }
  }
  CHECK(while_loading > 10);
}

namespace {

template <class Message>
bool is_carried(const std::string& bytes) {
  wire::Frame frame;
  return frame.ParseFromString(bytes) && frame.has_envelope() &&
         frame.envelope().kind() == wire_codec::kKind<Message>;
}

}  // namespace

TEST_CASE("each message of a move lost in turn: no token changes, and experts move again") {
  struct Kind {
    const char* name;
    bool (*carries)(const std::string& bytes);
  };

  for (const Kind& kind : {Kind{"hold", is_carried<HoldExperts>},
                           Kind{"held", is_carried<ExpertsHeld>},
                           Kind{"keep", is_carried<KeepExperts>},
                           Kind{"count", is_carried<CountExperts>},
                           Kind{"loads", is_carried<ExpertLoads>},
                           Kind{"place", is_carried<PlaceExperts>}}) {
    CAPTURE(kind.name);
    const int most = std::string(kind.name) == "place" ? 1 : 8;
    for (int turn = 0; turn < most; ++turn) {
      CAPTURE(turn);
      int seen = 0;
      bool is_lossy = false;
      WorldSetup setup = moving(40);
      setup.tamper.messages = [&](NodeId, NodeId, std::string bytes) {
        const bool is_lost = is_lossy && kind.carries(bytes) && seen++ == turn;
        return is_lost ? std::vector<std::string>() : std::vector{std::move(bytes)};
      };
      World world(setup);
      REQUIRE(world.run_until_whole());
      is_lossy = true;
      std::vector<RequestId> asked;
      run_through_moves(world, 1, asked);
      CHECK(seen > turn);
      run_through_moves(world, 1, asked);
      check_at_rest(world, asked);
    }
  }
}

TEST_CASE("two placements that are begun at once end in one, and no token changes") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    World world(guppy(kNodes, seed, kShards, 1));
    REQUIRE(world.run_until_whole());
    const auto asked = ask(world, 6);
    for (int round = 0; round < 4; ++round) {
      for (const std::uint32_t node : {1U, 2U}) {
        std::vector<ExpertLayer> layers = source_of(world, node).placement()->layers;
        for (ExpertLayer& layer : layers) {
          std::shuffle(layer.expert_at.begin(), layer.expert_at.end(), world.random());
        }
        REQUIRE(source_of(world, node).place(std::move(layers)).has_value());
        world.run_for(milliseconds(static_cast<std::int64_t>(world.random()() % 30)));
      }
      world.run_for(milliseconds(300));
    }
    REQUIRE(world.run_until_all_over(seconds(120)));
    check_truth(world, asked);
    CHECK(world.run([&world] { return all_use_one(world); }, seconds(20)));
    CHECK(in_force(world, 1) > EpochId{1});
  }
}

TEST_CASE("experts stay where they are while the node of their balancer is away") {
  World world(moving(7));
  REQUIRE(world.run_until_whole());
  std::vector<RequestId> asked;
  run_through_moves(world, 1, asked);
  world.kill(kOwner);
  world.run_for(seconds(3));
  const EpochId before = in_force(world, 1);
  world.run_for(seconds(5));
  CHECK(all_use_one(world));
  CHECK(in_force(world, 1) == before);
  world.restart(kOwner);
  REQUIRE(world.run_until_whole(seconds(30)));
  asked.clear();
  run_through_moves(world, 1, asked);
  CHECK(in_force(world, 1) > before);
  check_at_rest(world, asked);
}
