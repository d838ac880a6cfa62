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

// A group that only notes what it is sent.
DecodeGroupActor noting_group(caf::actor_system& system, std::vector<AttemptKey>& joined) {
  return system.spawn([&joined]() -> DecodeGroupActor::behavior_type {
    return {[](const Rewire&) {},
            [](const Ping&) {},
            [](const Tick&) {},
            [&joined](const JoinDecode& m) { joined.push_back(m.handover.key()); },
            [](const ReleaseAttempt&) {},
            [](const DecodeReady&) {},
            [](const DecodeStepDone&) {}};
  });
}

Handover waiting_elsewhere() {
  auto submission = std::make_shared<Submission>();
  submission->request = RequestId{7};
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
  std::vector<AttemptKey> joined;
  const auto balancer = spawn_decode_balancer(testing.system(), idle_node(), 0);
  const auto group = noting_group(testing.system(), joined);
  DecodeLoad load{NodeId{0}, std::vector<DecodeRankLoad>(1), 0};
  load.ranks[0].room = {.blocks = 8, .sequences = 1};
  notify(balancer, std::move(load));
  auto wiring = std::make_shared<Wiring>();
  wiring->nodes[0].decode_balancer = balancer;
  wiring->nodes[0].decode_group = group;
  notify(balancer, Rewire{std::move(wiring)});
  notify(balancer, PlaceDecode{waiting_elsewhere()});
  testing.run();
  CHECK(joined == std::vector<AttemptKey>{{RequestId{7}, AttemptId{1}}});
  end_actor(balancer);
  end_actor(group);
  testing.run();
}
