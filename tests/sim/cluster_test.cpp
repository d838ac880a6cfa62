// A cluster of processes answers like one node, and goes on when any of them dies, stops or is cut
// off.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/cluster_setup.h"
#include "tests/sim/event_line.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct Asked {
  testing::Clients* clients = nullptr;
  RequestId request;
};

std::vector<Asked> ask_some(World& world, NodeId gateway, int count) {
  std::vector<Asked> asked;
  for (int i = 0; i < count; ++i) {
    auto& random = world.random();
    const auto prompt = static_cast<std::int64_t>(1 + random() % 300);
    const int answer = static_cast<int>(1 + random() % 40);
    asked.push_back({&world.clients(gateway),
                     world.clients(gateway).ask(testing::wanted(random(), prompt, answer))});
  }
  return asked;
}

std::size_t tokens_of(const std::vector<Asked>& asked) {
  std::size_t tokens = 0;
  for (const Asked& one : asked) {
    tokens += one.clients->answer(one.request).tokens.size();
  }
  return tokens;
}

// Complete, and token for token what the device's rule says.
void check_truth(const std::vector<Asked>& asked) {
  for (const Asked& one : asked) {
    const testing::Answer answer = one.clients->answer(one.request);
    const testing::Wanted wanted = one.clients->asked(one.request);
    CAPTURE(one.request.value);
    CAPTURE((answer.error ? answer.error->message : std::string()));
    REQUIRE(answer.terminal_events == 1);
    REQUIRE_FALSE(answer.error.has_value());
    REQUIRE(answer.basis.has_value());
    CHECK(answer.tokens == testing::sim_answer({}, wanted, *answer.basis, 4096));
  }
}

std::ptrdiff_t count_events(const World& world, std::string_view name) {
  const auto& events = world.events();
  return std::count_if(events.begin(), events.end(), [name](const std::string& line) {
    return event_name(line) == name;
  });
}

std::ptrdiff_t count_at(const World& world, const std::string& node, const std::string& event) {
  const auto& events = world.events();
  return std::count_if(events.begin(), events.end(), [&](const std::string& line) {
    return line.rfind(node + " " + event, 0) == 0;
  });
}

// At node 0 that part is degraded, and no other.
bool whole_but(World& world, std::string_view missing) {
  const auto& parts = world.node(NodeId{0}).health().parts;
  return !parts.empty() &&
         std::all_of(parts.begin(), parts.end(), [missing](const PartHealth& part) {
           const bool ok = part.state == PartState::kOk || part.state == PartState::kBusy;
           return ok == (part.name != missing);
         });
}

bool settle_memory(World& world) {
  return world.run([&world] { return world.memory_is_free(); }, seconds(20));
}

}  // namespace

TEST_CASE("gateway and router, prefill and decode in three processes answer like one node") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const auto asked = ask_some(world, NodeId{0}, 12);
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(asked);
    CHECK(settle_memory(world));
  }
}

TEST_CASE("every role in a process of its own, two of each") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(setup_of(
        {kGateway, kGateway, kRouter, kRouter, kPrefill, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    auto asked = ask_some(world, NodeId{0}, 10);
    const auto others = ask_some(world, NodeId{1}, 10);
    asked.insert(asked.end(), others.begin(), others.end());
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(asked);
    CHECK(settle_memory(world));
  }
}

TEST_CASE("a killed prefill or decode node costs a pause and no token") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const NodeId victim : {NodeId{1}, NodeId{3}}) {
      CAPTURE(seed);
      CAPTURE(victim.value);
      World world(setup_of({kFront, kPrefill, kPrefill, kDecode, kDecode}, seed));
      REQUIRE(world.run_until_whole());
      const auto asked = ask_some(world, NodeId{0}, 16);
      REQUIRE(world.run([&] { return tokens_of(asked) > 60; }, seconds(60)));
      world.kill(victim);
      REQUIRE(world.run_until_all_over(seconds(60)));
      check_truth(asked);
      CHECK(settle_memory(world));
    }
  }
}

TEST_CASE("the only decode node is killed and started again: its answers go on") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const auto asked = ask_some(world, NodeId{0}, 8);
    REQUIRE(world.run([&] { return tokens_of(asked) > 30; }, seconds(60)));
    world.kill(NodeId{2});
    world.run_for(seconds(3));
    world.restart(NodeId{2});
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(asked);
    CHECK(settle_memory(world));
  }
}

TEST_CASE("a killed router costs a pause: its streams go to the other one, or to its successor") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const bool only : {false, true}) {
      CAPTURE(seed);
      CAPTURE(only);
      auto nodes = std::vector<NodeRoles>{kGateway, kRouter, kPrefill, kDecode};
      if (!only) {
        nodes.push_back(kRouter);
      }
      World world(setup_of(nodes, seed));
      REQUIRE(world.run_until_whole());
      const auto asked = ask_some(world, NodeId{0}, 12);
      REQUIRE(world.run([&] { return tokens_of(asked) > 40; }, seconds(60)));
      world.kill(NodeId{1});
      if (only) {
        world.run_for(seconds(2));
        world.restart(NodeId{1});
      }
      REQUIRE(world.run_until_all_over(seconds(60)));
      check_truth(asked);
      CHECK(settle_memory(world));
    }
  }
}

TEST_CASE("a killed gateway's work is given up, and its memory comes back") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kRouter, kGateway, kGateway, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const auto lost = ask_some(world, NodeId{1}, 8);
    const auto kept = ask_some(world, NodeId{2}, 8);
    REQUIRE(world.run([&] { return tokens_of(lost) > 20; }, seconds(60)));
    world.kill(NodeId{1});
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(kept);
    for (const Asked& one : lost) {
      CHECK(one.clients->answer(one.request).over());
    }
    CHECK(settle_memory(world));
  }
}

TEST_CASE(
    "a stopped decode node is fenced: it comes back as another life with nothing in its hands") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const auto asked = ask_some(world, NodeId{0}, 12);
    REQUIRE(world.run([&] { return tokens_of(asked) > 40; }, seconds(60)));
    world.pause(NodeId{2}, true);
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(asked);
    world.pause(NodeId{2}, false);
    REQUIRE(world.run_until_whole());
    CHECK(settle_memory(world));
    CHECK(world.node(NodeId{2}).metrics_text().find("shoal_times_fenced_total 1") !=
          std::string::npos);
    const auto again = ask_some(world, NodeId{0}, 12);
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(again);
  }
}

TEST_CASE("cut off from the owner of the membership a node is left out, and let in when mended") {
  World world(setup_of({kFront, kPrefill, kDecode, kDecode}, 3));
  REQUIRE(world.run_until_whole());
  const auto asked = ask_some(world, NodeId{0}, 12);
  REQUIRE(world.run([&] { return tokens_of(asked) > 40; }, seconds(60)));
  world.cut(NodeId{0}, NodeId{2});
  REQUIRE(world.run_until_all_over(seconds(60)));
  check_truth(asked);
  world.mend_all();
  REQUIRE(world.run_until_whole());
  CHECK(settle_memory(world));
}

TEST_CASE("a node that runs another model is never linked nor a member, and the others serve") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const ModelIdentity& other : {ModelIdentity{"b", "cpu"}, ModelIdentity{"a", "gpu"}}) {
      CAPTURE(seed);
      CAPTURE(other.model);
      WorldSetup setup = setup_of({kFront, kPrefill, kDecode, kDecode}, seed);
      // One without a device, one that does not say, one like the front, and another one.
      setup.identities = {{NodeId{0}, {"a", "cpu"}}, {NodeId{2}, {"a", "cpu"}}, {NodeId{3}, other}};
      World world(setup);
      REQUIRE(world.run([&world] { return whole_but(world, "node.n3"); }, seconds(10)));
      const auto asked = ask_some(world, NodeId{0}, 12);
      REQUIRE(world.run_until_all_over(seconds(60)));
      check_truth(asked);
      world.run_for(seconds(5));
      CHECK(world.node(NodeId{0}).health().state == PartState::kDegraded);
      CHECK(whole_but(world, "node.n3"));
      CHECK(world.node(NodeId{3}).health().state == PartState::kDead);
      CHECK(count_events(world, "peer.refused") > 0);
      CHECK(count_at(world, "n3", "node.joined") == 0);
      CHECK(count_at(world, "n3", "peer.up") == 0);
    }
  }
}

TEST_CASE("a view that the store took without an answer reaches all nodes at once") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    world.take_store_away(true);
    world.kill(NodeId{1});
    world.restart(NodeId{1});
    REQUIRE(world.run([&world] { return count_events(world, "membership.not_published") > 0; },
                      seconds(10)));
    world.take_store_away(false);
    const auto told = [&world, before = count_events(world, "node.view")] {
      return count_events(world, "node.view") - before;
    };
    REQUIRE(world.run([&told] { return told() > 0; }, seconds(10)));
    world.run_for(milliseconds(2));
    CHECK(told() == static_cast<std::ptrdiff_t>(world.size()));
  }
}

TEST_CASE("a router that is built anew counts nothing that the one before it had open") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    testing::Clients& clients = world.clients(NodeId{0});
    ask_some(world, NodeId{0}, 5);
    REQUIRE(
        world.run([&world] { return count_events(world, "request.received") == 5; }, seconds(10)));
    world.break_part(NodeId{0}, "router");
    for (const RequestId request : clients.requests()) {
      clients.leave(request);
    }
    REQUIRE(
        world.run([&world] { return count_events(world, "pipeline.rebuilt") > 0; }, seconds(10)));
    world.run_for(milliseconds(50));
    CHECK(world.believed_answers() == "");
  }
}

TEST_CASE("the same seed gives the same run") {
  const auto run = [](std::uint64_t seed) {
    World world(setup_of({kFront, kPrefill, kDecode, kDecode}, seed));
    world.run_until_whole();
    const auto asked = ask_some(world, NodeId{0}, 8);
    world.run([&] { return tokens_of(asked) > 20; }, seconds(60));
    world.kill(NodeId{2});
    world.run_until_all_over(seconds(60));
    return world.hash();
  };
  CHECK(run(5) == run(5));
  CHECK(run(5) != run(6));
}

TEST_CASE("a gateway tells the story of a request that a router of another node owned") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kGateway, kRouter, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    testing::Clients& clients = world.clients(NodeId{0});
    const RequestId request = clients.ask(testing::wanted(seed, 100, 20));
    REQUIRE(world.run_until_all_over(seconds(30)));
    world.run_for(seconds(1));
    const auto story = world.node(NodeId{0}).explain(request);
    REQUIRE(story.has_value());
    REQUIRE(story->entries.size() >= 6);
    CHECK(story->entries.front().event == "received");
    CHECK(story->entries.back().state == "finished");
    const auto happened_at = [&story](NodeId node) {
      return std::any_of(story->entries.begin(), story->entries.end(), [node](const auto& entry) {
        return entry.node == node;
      });
    };
    CHECK(happened_at(NodeId{1}));
    CHECK(happened_at(NodeId{2}));
    CHECK(happened_at(NodeId{3}));
    CHECK_FALSE(world.node(NodeId{1}).explain(request).has_value());
  }
}

// Tokens go straight from decode to the gateway; the router has other links to both.
TEST_CASE("tokens that were lost with their link are asked for again soon") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const NodeId gateway{0};
    const NodeId decode{3};
    World world(setup_of({kGateway, kRouter, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    // Some of the answers end while the link is cut, some are still going on when it is lost.
    const std::vector<Asked> asked = {
        {&world.clients(gateway), world.clients(gateway).ask(testing::wanted(seed, 100, 20))},
        {&world.clients(gateway),
         world.clients(gateway).ask(testing::wanted(seed + 1, 50, 1'000))}};
    REQUIRE(world.run([&asked] { return tokens_of(asked) >= 8; }, seconds(10)));
    world.cut(gateway, decode);
    world.run_for(seconds(2));
    world.mend(gateway, decode);
    REQUIRE(world.run_until_all_over(seconds(15)));
    check_truth(asked);
    CHECK(settle_memory(world));
  }
}
