// Nodes that are told to end: what they still do, who hears of it, and what the others say then.
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

constexpr NodeId kFrontNode{0};
constexpr NodeId kPrefillNode{1};
constexpr NodeId kDecodeNode{2};
constexpr Nanos kDrainLimit = std::chrono::minutes(1);

std::vector<RequestId> ask(World& world, int count, std::int64_t prompt, int answer) {
  std::vector<RequestId> asked;
  for (int i = 0; i < count; ++i) {
    asked.push_back(
        world.clients(kFrontNode).ask(testing::wanted(world.random()(), prompt, answer)));
  }
  return asked;
}

bool have_begun(World& world, const std::vector<RequestId>& asked) {
  return std::all_of(asked.begin(), asked.end(), [&world](RequestId request) {
    return world.clients(kFrontNode).answer(request).tokens.size() >= 2;
  });
}

bool are_over(World& world, const std::vector<RequestId>& asked) {
  return std::all_of(asked.begin(), asked.end(), [&world](RequestId request) {
    return world.clients(kFrontNode).answer(request).over();
  });
}

// Complete, token for token, with so many attempts at most.
void check_truth(World& world, const std::vector<RequestId>& asked, std::uint32_t attempts) {
  for (const RequestId request : asked) {
    const testing::Answer answer = world.clients(kFrontNode).answer(request);
    CAPTURE(request.value);
    CAPTURE((answer.error ? answer.error->message : std::string()));
    REQUIRE(answer.terminal_events == 1);
    REQUIRE_FALSE(answer.error.has_value());
    CHECK(answer.attempts <= attempts);
    CHECK(answer.tokens ==
          testing::sim_answer({}, world.clients(kFrontNode).asked(request), *answer.basis, 4096));
  }
}

bool ends(World& world, NodeId node) {
  return world.run([&world, node] { return !world.alive(node); }, kDrainLimit / 2);
}

PartHealth told_of(World& world, NodeId at, const std::string& node) {
  for (const PartHealth& part : world.node(at).health().parts) {
    if (part.name == "node." + node) {
      return part;
    }
  }
  return {};
}

bool says(World& world, NodeId at, const std::string& node, PartState state) {
  return world.run([&] { return told_of(world, at, node).state == state; }, seconds(3));
}

std::ptrdiff_t count(const World& world, std::string_view event, const std::string& with) {
  const auto& events = world.events();
  return std::count_if(events.begin(), events.end(), [&](const std::string& line) {
    return event_name(line) == event && line.find(with) != std::string::npos;
  });
}

WorldSetup draining_setup(std::vector<NodeRoles> nodes, std::uint64_t seed) {
  WorldSetup setup = setup_of(std::move(nodes), seed);
  setup.configure = [](Config& config) {
    config.mutable_request()->set_drain_ms(kDrainLimit / milliseconds(1));
  };
  return setup;
}

}  // namespace

TEST_CASE("the last node of a role that drains ends with its own work, and what is new waits") {
  for (const bool decode : {true, false}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(decode);
      CAPTURE(seed);
      World world(draining_setup({kFront, kPrefill, kDecode}, seed));
      REQUIRE(world.run_until_whole());
      const NodeId last = decode ? kDecodeNode : kPrefillNode;
      const auto before = ask(world, 4, 200, 60);
      REQUIRE(world.run([&] { return have_begun(world, before); }, seconds(10)));
      world.drain(last);
      REQUIRE(says(world, kFrontNode, decode ? "n2" : "n1", PartState::kDraining));
      const auto late = ask(world, 4, 200, 20);
      REQUIRE(ends(world, last));
      REQUIRE(world.run([&] { return are_over(world, before); }, seconds(10)));
      check_truth(world, before, 1);
      CHECK(std::none_of(late.begin(), late.end(), [&world](RequestId request) {
        return world.clients(kFrontNode).answer(request).tokens.size() > 1;
      }));
      world.restart(last);
      REQUIRE(world.run_until_all_over(seconds(30)));
      check_truth(world, late, 1);
    }
  }
}

TEST_CASE("a router that drains sees its ledger out, while others take what is new") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(draining_setup({kGateway, kPrefill, kDecode, kRouter, kRouter}, seed));
    REQUIRE(world.run_until_whole());
    const auto before = ask(world, 6, 200, 60);
    REQUIRE(world.run([&] { return have_begun(world, before); }, seconds(10)));
    world.drain(NodeId{3});
    REQUIRE(says(world, kFrontNode, "n3", PartState::kDraining));
    CHECK(world.node(kFrontNode).health().state == PartState::kOk);
    const std::int64_t attempts = world.node(NodeId{3}).metrics().attempts;
    const auto late = ask(world, 6, 20, 200);
    REQUIRE(world.run([&] { return are_over(world, before) || !world.alive(NodeId{3}); },
                      kDrainLimit / 2));
    CHECK((!world.alive(NodeId{3}) || world.node(NodeId{3}).metrics().attempts == attempts));
    REQUIRE(ends(world, NodeId{3}));
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(world, before, 1);
    check_truth(world, late, 1);
  }
}

TEST_CASE("the only router leaves at once, and its streams go on when it is back") {
  World world(draining_setup({kGateway, kPrefill, kDecode, kRouter}, 1));
  REQUIRE(world.run_until_whole());
  const auto asked = ask(world, 3, 200, 400);
  REQUIRE(world.run([&] { return have_begun(world, asked); }, seconds(10)));
  world.drain(NodeId{3});
  REQUIRE(world.run([&] { return !world.alive(NodeId{3}); }, seconds(1)));
  world.restart(NodeId{3});
  REQUIRE(world.run_until_all_over(seconds(60)));
  check_truth(world, asked, 2);
}

TEST_CASE("a node that ends as it was told to has left, and nobody is degraded by that") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(draining_setup({kFront, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const auto asked = ask(world, 6, 50, 300);
    REQUIRE(world.run([&] { return have_begun(world, asked); }, seconds(10)));
    world.drain(kDecodeNode);
    CHECK(world.node(kDecodeNode).health().state == PartState::kDraining);
    REQUIRE(ends(world, kDecodeNode));
    // A prefill node has no link to it, and hears of it by the view.
    for (const NodeId other : {kFrontNode, kPrefillNode}) {
      REQUIRE(says(world, other, "n2", PartState::kLeft));
      CHECK(world.run(
          [&] {
            const PartState state = world.node(other).health().state;
            return state == PartState::kOk || state == PartState::kBusy;
          },
          seconds(1)));
    }
    CHECK(count(world, "peer.left", "node=n2") == 1);
    CHECK(count(world, "peer.down", "node=n2") == 0);
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(world, asked, 1);
    world.restart(kDecodeNode);
    REQUIRE(says(world, kFrontNode, "n2", PartState::kOk));
    REQUIRE(says(world, kPrefillNode, "n2", PartState::kOk));
  }
}

TEST_CASE("without its last decode node a cluster says what it misses, planned or not") {
  World world(draining_setup({kFront, kPrefill, kDecode}, 1));
  REQUIRE(world.run_until_whole());
  const auto asked = ask(world, 2, 50, 300);
  REQUIRE(world.run([&] { return have_begun(world, asked); }, seconds(10)));
  world.drain(kDecodeNode);
  REQUIRE(says(world, kFrontNode, "n2", PartState::kDraining));
  CHECK(world.node(kFrontNode).health().state == PartState::kDraining);
  REQUIRE(ends(world, kDecodeNode));
  REQUIRE(says(world, kFrontNode, "n2", PartState::kLeft));
  CHECK(world.node(kFrontNode).health().state == PartState::kDead);
}

TEST_CASE("a node that dies untold is missing, not gone as planned") {
  World world(draining_setup({kFront, kPrefill, kDecode, kDecode}, 1));
  REQUIRE(world.run_until_whole());
  world.kill(kDecodeNode);
  REQUIRE(says(world, kFrontNode, "n2", PartState::kDegraded));
  CHECK(world.node(kFrontNode).health().state == PartState::kDegraded);
  CHECK(count(world, "peer.left", "") == 0);
}
