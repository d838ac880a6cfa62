// Requests start behind the blocks that earlier ones left in the store, on whatever node those were
// computed, and a store that fails costs work, never an answer.
#include <algorithm>
#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/wire_messages.h"
#include "schemas/wire.pb.h"
#include "tests/sim/event_line.h"
#include "tests/sim/kv_sessions.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::seconds;

namespace {

WorldSetup keeping(std::vector<NodeRoles> nodes, std::uint64_t seed) {
  WorldSetup setup = setup_of(std::move(nodes), seed);
  setup.keeps_kv = true;
  // Blocks alone: session_tails_world_test.cpp has the rest.
  setup.configure = [configure = setup.configure](Config& config) {
    if (configure) {
      configure(config);
    }
    config.mutable_kv()->set_tail_bytes(0);
  };
  return setup;
}

void take_store_away(World& world, bool away) {
  for (std::uint32_t n = 0; n < world.size(); ++n) {
    world.set_mount(NodeId{n}, away ? Mount::kAway : Mount::kWorks);
  }
}

std::ptrdiff_t count_events(const World& world, std::string_view name) {
  const auto& events = world.events();
  return std::count_if(events.begin(), events.end(), [name](const std::string& line) {
    return event_name(line) == name;
  });
}

// What the timeline of a new request says of kept KV, an event after the other.
std::string reasons_of(World& world, const testing::Wanted& wanted) {
  const RequestId request = world.clients(NodeId{0}).ask(wanted);
  REQUIRE(world.run_until_all_over(seconds(120)));
  world.run_for(seconds(3));
  const auto timeline = world.node(NodeId{0}).explain(request);
  REQUIRE(timeline.has_value());
  std::string reasons;
  for (const TimelineEntry& entry : timeline->entries) {
    for (const TimelineField& field : entry.fields) {
      if (field.name == "kv_reason") {
        reasons += (reasons.empty() ? "" : ", ") + std::get<std::string>(field.value);
      }
    }
  }
  return reasons;
}

bool settle_memory(World& world) {
  return world.run([&world] { return world.memory_is_free(); }, seconds(20));
}

}  // namespace

TEST_CASE("a second request of the same prompt starts behind the first one's blocks") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    const testing::Wanted wanted = story(seed, 700);
    const testing::Answer cold = ask(world, wanted);
    check_true(world, cold, wanted);
    CHECK(cold.basis->hit == 0);
    CHECK(cold.cached_tokens == 0);
    const testing::Answer warm = ask(world, wanted);
    check_true(world, warm, wanted);
    CHECK(warm.basis->hit == 640);
    CHECK(warm.basis->replay_floor == 512);
    CHECK(warm.basis->lineage != 0);
    CHECK(warm.cached_tokens == 640);
    const testing::Answer again = ask(world, wanted);
    CHECK(again.basis == warm.basis);
    CHECK(again.tokens == warm.tokens);
    CHECK(settle_memory(world));
  });
}

TEST_CASE(
    "a turn that follows at once starts behind all that is durable, whichever node stored it") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    testing::Wanted turn = story(seed, 300);
    for (const Position hit : {Position{0}, Position{256}, Position{640}}) {
      const RequestId request = world.clients(NodeId{0}).ask(turn);
      REQUIRE(world.run_until_all_over(seconds(120)));
      const testing::Answer answer = world.clients(NodeId{0}).answer(request);
      check_true(world, answer, turn);
      CHECK(answer.cached_tokens == hit);
      CHECK(answer.attempts == 1);
      const std::vector<TokenId> said = testing::wanted(7, 400, 1).prompt;
      turn.prompt.insert(turn.prompt.end(), said.begin(), said.end());
      world.run_for(std::chrono::milliseconds(300));
    }
  });
}

TEST_CASE("news of blocks that get lost cost the time until the stores look by themselves") {
  WorldSetup setup = keeping({kFront, kPrefill, kDecode}, 1);
  std::int64_t lost = 0;
  setup.tamper.messages = [&lost](NodeId, NodeId, std::string bytes) {
    wire::Frame frame;
    if (frame.ParseFromString(bytes) && frame.envelope().kind() == wire_codec::kKind<KvNews>) {
      ++lost;
      return std::vector<std::string>{};
    }
    return std::vector<std::string>{std::move(bytes)};
  };
  World world(setup);
  REQUIRE(world.run_until_whole());
  const testing::Wanted wanted = story(1, 700);
  ask(world, wanted);
  CHECK(ask(world, wanted).basis->hit == 640);
  CHECK(lost > 0);
}

TEST_CASE("exact hits change no token") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    const testing::Wanted wanted = story(seed, 900, BasisMode::kExact);
    const testing::Answer cold = ask(world, wanted);
    const testing::Answer warm = ask(world, wanted);
    check_true(world, warm, wanted);
    CHECK(cold.basis->hit == 0);
    CHECK(warm.basis->hit == 896);
    CHECK(warm.tokens == cold.tokens);
    CHECK(settle_memory(world));
  });
}

TEST_CASE("an exact request takes no block that was computed behind a bounded replay") {
  World world(keeping({kAllRoles}, 1));
  REQUIRE(world.run_until_whole());
  testing::Wanted first = story(1, 700);
  ask(world, first);
  testing::Wanted longer = first;
  for (TokenId token = 3; token < 403; ++token) {
    longer.prompt.push_back(token);
  }
  CHECK(ask(world, longer).basis->hit == 640);
  longer.mode = BasisMode::kExact;
  const testing::Answer exact = ask(world, longer);
  check_true(world, exact, longer);
  CHECK(exact.basis->hit == 640);
  // Its own blocks are exact, and took the place of the bounded ones.
  CHECK(ask(world, longer).basis->hit == 1024);
}

TEST_CASE("the next turn of a conversation starts behind its own answer") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    testing::Wanted turn = story(seed, 300, BasisMode::kBounded, 400);
    const testing::Answer first = ask(world, turn);
    check_true(world, first, turn);
    REQUIRE(first.tokens.size() == 400);
    turn.prompt.insert(turn.prompt.end(), first.tokens.begin(), first.tokens.end());
    turn.prompt.insert(turn.prompt.end(), {5, 6, 7});
    turn.sampling.max_tokens = 20;
    const testing::Answer second = ask(world, turn);
    check_true(world, second, turn);
    CHECK(second.basis->hit == 640);
    CHECK(settle_memory(world));
  });
}

TEST_CASE("an answer that a dying worker cut off keeps its hit, and its blocks go on") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    testing::Wanted wanted = story(seed, 500, BasisMode::kBounded, 300);
    ask(world, wanted);
    const RequestId request = world.clients(NodeId{0}).ask(wanted);
    REQUIRE(world.run([&] { return world.clients(NodeId{0}).answer(request).tokens.size() > 150; },
                      seconds(60)));
    for (std::uint32_t n = 0; n < world.size(); ++n) {
      world.break_part(NodeId{n}, "decode_worker.0");
    }
    REQUIRE(world.run_until_all_over(seconds(120)));
    world.run_for(seconds(1));
    const testing::Answer resumed = world.clients(NodeId{0}).answer(request);
    check_true(world, resumed, wanted);
    CHECK(resumed.attempts == 2);
    CHECK(resumed.basis->hit == 384);
    CHECK(count_events(world, "request.basis_changed") == 0);
    testing::Wanted next = wanted;
    next.prompt.insert(next.prompt.end(), resumed.tokens.begin(), resumed.tokens.end());
    CHECK(ask(world, next).basis->hit == 768);
    CHECK(settle_memory(world));
  });
}

TEST_CASE("a prefill node that dies between two turns loses no hit") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    World world(keeping({kFront, kPrefill, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const testing::Wanted wanted = story(seed, 700);
    ask(world, wanted);
    for (const NodeId victim : {NodeId{1}, NodeId{2}}) {
      world.kill(victim);
      world.run_for(seconds(3));
      const testing::Answer warm = ask(world, wanted);
      check_true(world, warm, wanted);
      CHECK(warm.basis->hit == 640);
      world.restart(victim);
      REQUIRE(world.run_until_whole());
    }
  }
}

TEST_CASE("a kv client that dies costs a pause") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    const testing::Wanted wanted = story(seed, 700);
    ask(world, wanted);
    for (std::uint32_t n = 0; n < world.size(); ++n) {
      const RequestId request = world.clients(NodeId{0}).ask(wanted);
      world.run_for(std::chrono::microseconds(world.random()() % 2'000));
      world.break_part(NodeId{n}, "kv_client");
      REQUIRE(world.run_until_all_over(seconds(120)));
      check_true(world, world.clients(NodeId{0}).answer(request), wanted);
    }
    CHECK(settle_memory(world));
  });
}

TEST_CASE("nobody starts behind another tenant's blocks") {
  World world(keeping({kFront, kPrefill, kDecode}, 1));
  REQUIRE(world.run_until_whole());
  testing::Wanted wanted = story(1, 700);
  wanted.tenant = "one";
  ask(world, wanted);
  CHECK(ask(world, wanted).basis->hit == 640);
  wanted.tenant = "another";
  const testing::Answer foreign = ask(world, wanted);
  check_true(world, foreign, wanted);
  CHECK(foreign.basis->hit == 0);
}

TEST_CASE("damaged blocks are a miss, until they are stored anew") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    const testing::Wanted wanted = story(seed, 700);
    ask(world, wanted);
    damage_records(world);
    const testing::Answer healed = ask(world, wanted);
    check_true(world, healed, wanted);
    CHECK(healed.basis->hit == 0);
    CHECK(healed.attempts == 1);
    // Every prefill node has to see the damage before it stores the block again.
    Position hit = 0;
    for (int turn = 0; turn < 4 && hit == 0; ++turn) {
      world.run_for(seconds(15));
      const testing::Answer next = ask(world, wanted);
      check_true(world, next, wanted);
      CHECK(next.attempts == 1);
      hit = next.basis->hit;
    }
    CHECK(hit == 640);
    CHECK(settle_memory(world));
  });
}

TEST_CASE("behind a damaged block a hit ends there, and the attempt goes on with what is below") {
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    CAPTURE(static_cast<int>(mode));
    for_each_cluster(keeping, [mode](World& world, std::uint64_t seed) {
      const testing::Wanted wanted = story(seed, 900, mode);
      const testing::Answer cold = ask(world, wanted);
      damage_records(world, 5);
      const testing::Answer shortened = ask(world, wanted);
      check_true(world, shortened, wanted);
      CHECK(shortened.attempts == 1);
      CHECK(shortened.basis->hit == 640);
      CHECK(shortened.cached_tokens == 640);
      if (mode == BasisMode::kExact) {
        CHECK(shortened.tokens == cold.tokens);
      }
      world.run_for(seconds(15));
      CHECK(ask(world, wanted).basis->hit == 896);
      CHECK(settle_memory(world));
    });
  }
}

TEST_CASE("a store that goes away costs no answer, and is used again when it is back") {
  for_each_cluster(keeping, [](World& world, std::uint64_t seed) {
    const testing::Wanted wanted = story(seed, 700);
    ask(world, wanted);
    take_store_away(world, true);
    const testing::Answer without = ask(world, wanted);
    check_true(world, without, wanted);
    CHECK(without.basis->hit == 0);
    CHECK(without.attempts == 1);
    take_store_away(world, false);
    world.run_for(seconds(10));
    CHECK(ask(world, wanted).basis->hit == 640);
    CHECK(settle_memory(world));
  });
}

TEST_CASE("the timeline says why a request took kept KV, or none") {
  World world(keeping({kAllRoles}, 1));
  REQUIRE(world.run_until_whole());
  const testing::Wanted wanted = story(1, 700);
  CHECK(reasons_of(world, wanted) == "nothing_stored");
  CHECK(reasons_of(world, wanted) == "blocks");
  damage_records(world);
  CHECK(reasons_of(world, wanted) == "blocks, load_failed");
  CHECK(reasons_of(world, wanted) == "blocks");  // stored anew
  take_store_away(world, true);
  CHECK(reasons_of(world, wanted) == "blocks, load_failed");
  CHECK(reasons_of(world, wanted) == "store_silent");
}

TEST_CASE("the timeline says that a last attempt takes nothing of what is kept") {
  WorldSetup setup = keeping({kAllRoles}, 1);
  setup.configure = [configure = setup.configure](Config& config) {
    configure(config);
    config.mutable_request()->set_attempts(1);
  };
  World world(setup);
  REQUIRE(world.run_until_whole());
  CHECK(reasons_of(world, story(1, 700)) == "last_attempt");
  CHECK(reasons_of(world, story(1, 700)) == "last_attempt");
}

TEST_CASE("whoever dies, every answer is true under its basis and no memory is lost") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(keeping({kFront, kPrefill, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    testing::Clients& clients = world.clients(NodeId{0});
    std::vector<RequestId> asked;
    for (int round = 0; round < 4; ++round) {
      for (std::uint64_t i = 0; i < 8; ++i) {
        const bool exact = world.random()() % 2 == 0;
        const auto prompt = static_cast<std::int64_t>(200 + world.random()() % 800);
        asked.push_back(
            clients.ask(story(i % 3, prompt, exact ? BasisMode::kExact : BasisMode::kBounded, 60)));
      }
      world.run_for(std::chrono::milliseconds(world.random()() % 300));
      const NodeId victim{static_cast<std::uint32_t>(1 + world.random()() % 4)};
      world.kill(victim);
      world.run_for(std::chrono::milliseconds(world.random()() % 3'000));
      world.restart(victim);
    }
    REQUIRE(world.run_until_all_over(seconds(300)));
    std::int64_t hits = 0;
    for (const RequestId request : asked) {
      const testing::Answer answer = clients.answer(request);
      check_true(world, answer, clients.asked(request));
      hits += answer.basis->hit > 0 ? 1 : 0;
    }
    CHECK(hits > 5);
    CHECK(settle_memory(world));
  }
}
