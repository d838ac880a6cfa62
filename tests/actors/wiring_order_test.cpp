// A node's parts are wired one after the other while others of them run already: what one says
// to another before that one is wired is not lost.
#include <doctest/doctest.h>
#include <memory>
#include <utility>
#include <vector>

#include <caf/scheduler/test_coordinator.hpp>

#include "actors/decode_balancer.h"

using namespace shoal;

namespace {

class TestingSystem {
 public:
  caf::actor_system& system() { return system_; }

  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler()).run(); }

 private:
  struct Config : caf::actor_system_config {
    Config() { set("scheduler.policy", caf::atom("testing")); }
  };

  Config config_;
  caf::actor_system system_{config_};
};

ContextPtr idle_node() {
  ContextPtr node(new NodeContext{.options = {},
                                  .shape = {},
                                  .roles = kAllRoles,
                                  .devices = {},
                                  .now = [] { return Instant{}; },
                                  .log = EventLog(LogLevel::kError, [](LogLevel, auto) {}),
                                  .metrics = {},
                                  .shards = {},
                                  .open = {},
                                  .health = {},
                                  .timelines = TimelineBoard(1),
                                  .serving = true,
                                  .cluster = {},
                                  .buffers = 0});
  node->options.decode_queue = 4;
  node->options.decode_batch = 4;
  return node;
}

struct Noted {
  std::vector<AttemptKey> joined;
  std::vector<AttemptKey> asked_to_move;
};

// A group that only notes what it is sent.
DecodeGroupActor noting_group(caf::actor_system& system, Noted& noted) {
  return system.spawn([&noted]() -> DecodeGroupActor::behavior_type {
    return {[](const Rewire&) {},
            [](const Ping&) {},
            [](const Tick&) {},
            [&noted](const JoinDecode& m) { noted.joined.push_back(m.handover.key()); },
            [](const ReleaseAttempt&) {},
            [&noted](const MoveDecode& m) { noted.asked_to_move.push_back(m.key); },
            [](const DecodeYielded&) {},
            [](const ReleaseHandover&) {},
            [](const DecodeReady&) {},
            [](const DecodeStepDone&) {}};
  });
}

Handover waiting_elsewhere(std::uint64_t request = 7) {
  auto submission = std::make_shared<Submission>();
  submission->request = RequestId{request};
  submission->attempt = AttemptId{1};
  auto placement = std::make_shared<Placement>();
  placement->submission = std::move(submission);
  placement->blocks = 1;
  Handover handover;
  handover.placement = std::move(placement);
  handover.buffer = BufferKey{1};
  return handover;
}

}  // namespace

TEST_CASE("a decode group that reports before its balancer is wired gets work") {
  TestingSystem testing;
  Noted noted;
  const auto balancer = spawn_decode_balancer(testing.system(), idle_node(), 0);
  const auto group = noting_group(testing.system(), noted);
  DecodeLoad load{NodeId{0}, std::vector<DecodeRankLoad>(1), 0};
  load.ranks[0].room = {.blocks = 8, .sequences = 1};
  notify(balancer, std::move(load));
  auto wiring = std::make_shared<Wiring>();
  wiring->nodes[0].decode_balancer = balancer;
  wiring->nodes[0].decode_group = group;
  notify(balancer, Rewire{std::move(wiring)});
  notify(balancer, PlaceDecode{waiting_elsewhere()});
  testing.run();
  CHECK(noted.joined == std::vector<AttemptKey>{{RequestId{7}, AttemptId{1}}});
  end_actor(balancer);
  end_actor(group);
  testing.run();
}

namespace {

DecodeLoad load_of(std::uint32_t node, std::uint64_t received, std::uint64_t steps) {
  DecodeLoad load{.node = NodeId{node},
                  .ranks = std::vector<DecodeRankLoad>(1),
                  .received = received,
                  .steps = steps};
  load.ranks[0].room = {.blocks = 8, .sequences = 8};
  load.ranks[0].blocks = 8;
  return load;
}

AttemptKey key_of(std::uint64_t request) {
  return {RequestId{request}, AttemptId{1}};
}

}  // namespace

TEST_CASE("an answer moves to the rank that was chosen for it when its own has the longest step") {
  TestingSystem testing;
  const ContextPtr node = idle_node();
  Instant now{};
  node->now = [&now] { return now; };
  node->options.decode_cost = {
      .step = std::chrono::milliseconds(1), .row_ps = 1'000'000'000, .near_fs = 0};
  node->options.decode_move = {.fixed = std::chrono::milliseconds(5)};
  node->options.decode_move_pause = std::chrono::milliseconds(100);
  const auto balancer = spawn_decode_balancer(testing.system(), node, 0);
  std::array<Noted, 2> noted;
  auto wiring = std::make_shared<Wiring>();
  wiring->nodes.resize(2);
  wiring->nodes[0].decode_balancer = balancer;
  for (std::size_t n = 0; n < noted.size(); ++n) {
    wiring->nodes[n].decode_group = noting_group(testing.system(), noted[n]);
  }
  notify(balancer, Rewire{wiring});
  // Nobody else is up yet: all four go to node 0. One of them ends after 64 steps.
  notify(balancer, load_of(0, 0, 0));
  for (std::uint64_t request = 1; request <= 4; ++request) {
    notify(balancer, PlaceDecode{waiting_elsewhere(request)});
  }
  testing.run();
  CHECK(noted[0].joined.size() == 4);
  now += std::chrono::seconds(1);
  notify(balancer, load_of(0, 4, 64));
  notify(balancer, DecodeLeft{{key_of(4)}});
  testing.run();
  CHECK(noted[0].asked_to_move.empty());
  now += std::chrono::seconds(1);
  notify(balancer, load_of(1, 0, 0));
  testing.run();
  REQUIRE(noted[0].asked_to_move.size() == 1);
  const AttemptKey moving = noted[0].asked_to_move.front();
  // It counts where it goes: neither is it asked again, nor does another one follow it.
  now += std::chrono::seconds(1);
  notify(balancer, load_of(0, 4, 65));
  testing.run();
  CHECK(noted[0].asked_to_move.size() == 1);
  notify(balancer, PlaceDecode{waiting_elsewhere(moving.request.value)});
  testing.run();
  CHECK(noted[1].joined == std::vector<AttemptKey>{moving});
  end_actor(balancer);
  for (const NodeParts& parts : wiring->nodes) {
    end_actor(parts.decode_group);
  }
  testing.run();
}
