// The autoscaler of a cluster: it hears what comes in anywhere, tells how many nodes that takes,
// and nobody misses it when it dies.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/sim/cluster_setup.h"
#include "tests/sim/event_line.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::seconds;

namespace {

// Decides every second; nodes are meant to be busy for one per cent of the time.
WorldSetup scaled_setup() {
  WorldSetup setup = setup_of({kFront, kPrefill, kDecode, kFront}, 7);
  setup.configure = [](Config& config) {
    config.mutable_log()->set_level("debug");
    config::Autoscale& autoscale = *config.mutable_autoscale();
    autoscale.set_bucket_ms(1'000);
    autoscale.set_provisioning_ms(0);
    autoscale.set_outage_ms(1'440'000);
    autoscale.set_prefill_permille(10);
    autoscale.set_decode_permille(10);
    autoscale.set_prefill_most(40);
  };
  return setup;
}

std::vector<RequestId> ask_some(World& world, NodeId gateway) {
  std::vector<RequestId> asked;
  for (int i = 0; i < 8; ++i) {
    asked.push_back(world.clients(gateway).ask(testing::wanted(world.random()(), 300, 20)));
  }
  return asked;
}

std::int64_t metric(World& world, NodeId node, const std::string& name) {
  const std::string text = world.node(node).metrics_text();
  const std::size_t at = text.find("\n" + name + " ");
  REQUIRE(at != std::string::npos);
  return std::stoll(text.substr(at + name.size() + 2));
}

std::int64_t wanted(World& world, const std::string& role) {
  return metric(world, NodeId{0}, "shoal_autoscale_nodes_wanted{role=\"" + role + "\"}");
}

std::ptrdiff_t count_events(const World& world, std::string_view name) {
  const auto& events = world.events();
  return std::count_if(events.begin(), events.end(), [name](const std::string& line) {
    return event_name(line) == name;
  });
}

}  // namespace

TEST_CASE("requests at any gateway make the autoscaler want the nodes that they take") {
  World world(scaled_setup());
  REQUIRE(world.run_until_whole());
  world.run_for(seconds(3));
  CHECK(wanted(world, "prefill") == 1);
  CHECK(wanted(world, "decode") == 1);
  for (int second = 0; second < 5; ++second) {
    ask_some(world, NodeId{0});
    ask_some(world, NodeId{3});
    world.run_for(seconds(1));
  }
  CHECK(metric(world, NodeId{0}, "shoal_autoscale_nodes{role=\"prefill\"}") == 1);
  CHECK(metric(world, NodeId{0}, "shoal_autoscale_demand_ns{role=\"prefill\"}") > 10'000'000);
  CHECK(wanted(world, "prefill") > 1);
  CHECK(wanted(world, "decode") > 1);
  CHECK(count_events(world, "provision.wanted") >= 4);
  CHECK(metric(world, NodeId{3}, "shoal_demand_ns_total{role=\"prefill\"}") > 0);
  CHECK(metric(world, NodeId{3}, "shoal_autoscale_nodes_wanted{role=\"prefill\"}") == 0);
}

TEST_CASE("an autoscaler that dies is replaced, and no request notices") {
  World world(scaled_setup());
  REQUIRE(world.run_until_whole());
  world.run_for(seconds(3));
  const auto before = count_events(world, "autoscale.planned");
  CHECK(before > 0);
  const auto asked = ask_some(world, NodeId{0});
  world.node(NodeId{0}).end_part("autoscaler");
  REQUIRE(world.run_until_all_over(seconds(60)));
  for (const RequestId& request : asked) {
    const testing::Answer answer = world.clients(NodeId{0}).answer(request);
    CHECK(answer.terminal_events == 1);
    CHECK_FALSE(answer.error.has_value());
  }
  CHECK(count_events(world, "part.lost") == 1);
  world.run_for(seconds(3));
  CHECK(count_events(world, "autoscale.planned") > before);
  CHECK(count_events(world, "pipeline.rebuilt") == 0);
}
