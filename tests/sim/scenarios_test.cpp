// Every scenario file holds its invariants over a range of seeds and reaches what it promises;
// drawn scenarios hold theirs.
#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "actors/policy/decode_policies.h"
#include "actors/policy/prefill_policies.h"
#include "tests/sim/counters.h"
#include "tests/sim/scenario.h"

using namespace shoal;
using namespace shoal::sim;

namespace {

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SHOAL_SCENARIOS)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void check_clean(const Outcome& outcome) {
  for (const Violation& violation : outcome.violations) {
    std::string timeline;
    for (const std::string& line : violation.timeline) {
      timeline += "\n  " + line;
    }
    FAIL_CHECK(violation.invariant << ": " << violation.what << timeline);
  }
}

}  // namespace

TEST_CASE("every scenario file holds its invariants and reaches what it promises") {
  for (const auto& file : scenario_files()) {
    const std::string name = file.stem().string();
    CAPTURE(name);
    const auto scenario = read_scenario(file);
    REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
    std::map<std::string, std::int64_t> reached;
    for (std::uint64_t seed = 1; seed <= kSeedsToReach; ++seed) {
      CAPTURE(seed);
      const Outcome outcome = run_scenario(*scenario, {seed, false});
      check_clean(outcome);
      for (const auto& [counter, count] : outcome.counters) {
        reached[counter] += count;
      }
    }
    for (const std::string& counter : scenario->reaches()) {
      CHECK_MESSAGE(reached[counter] > 0, name << " never reached " << counter);
    }
  }
}

TEST_CASE("every scenario file holds its invariants with a KV store, too") {
  constexpr std::uint64_t kSeeds = 2;
  std::int64_t hits = 0;
  for (const auto& file : scenario_files()) {
    const std::string name = file.stem().string();
    CAPTURE(name);
    scenario::Scenario scenario = read_scenario(file).value();
    if (scenario.has_store() || !scenario.device().model().empty()) {
      continue;
    }
    scenario.mutable_store();
    scenario.mutable_workload()->set_texts(2);
    scenario.mutable_workload()->set_tenants(2);
    scenario.mutable_workload()->set_prompt_max(std::max(600, scenario.workload().prompt_max()));
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      CAPTURE(seed);
      const Outcome outcome = run_scenario(scenario, {seed, false});
      check_clean(outcome);
      const auto hit = outcome.counters.find("kv_hit");
      hits += hit == outcome.counters.end() ? 0 : hit->second;
    }
  }
  CHECK(hits > 100);
}

// Sweeps and looks hang with the disk, and the clock that jumped has set all lifetimes to an end.
TEST_CASE("blocks that expired while the disk hung are not answered from") {
  scenario::Scenario scenario = drawn_scenario(1'166, 4);
  scenario.mutable_store();
  const Outcome outcome = run_scenario(scenario, {1'166, false});
  check_clean(outcome);
  CHECK(outcome.counters.at("kv_expired") > 0);
}

TEST_CASE("drawn scenarios of one to five nodes hold their invariants") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    check_clean(run_scenario(drawn_scenario(seed, 1 + static_cast<int>(seed % 5)), {seed, false}));
  }
}

TEST_CASE("the same scenario and seed give the same hash, another seed another") {
  const scenario::Scenario scenario = drawn_scenario(11, 4);
  const std::uint64_t hash = run_scenario(scenario, {11, false}).hash;
  CHECK(run_scenario(scenario, {11, true}).hash == hash);
  CHECK(run_scenario(written_out(scenario, 11), {11, false}).hash == hash);
  CHECK(run_scenario(scenario, {12, false}).hash != hash);
}

TEST_CASE("a KV store under faults gives the same hash under the same seed") {
  const auto scenario = read_scenario(SHOAL_SCENARIOS "/kv_everything_at_once.txtpb").value();
  CHECK(run_scenario(scenario, {3, false}).hash == run_scenario(scenario, {3, false}).hash);
}

TEST_CASE(
    "the event log tells when each fault begins and ends, in ms as the scenario counts them") {
  const auto scenario = parse_scenario(
      "node: \"gateway router\" node: \"prefill decode\" workload { requests: 3 } "
      "fault { kind: CUT peer: 1 at_ms: 50 for_ms: 30 }"
      "fault { kind: KILL node: 1 at_ms: 100 for_ms: 500 }"
      "fault { kind: DEVICE_FAIL node: 1 at_ms: 200 count: 2 }",
      "x");
  const auto events = run_scenario(*scenario, {1, true}).events;
  const auto said = [&events](const std::string& ms, const std::string& what) {
    return std::any_of(events.begin(), events.end(), [&](const std::string& line) {
      return line.find(" " + ms + ".") < line.find(what);
    });
  };
  CHECK(said("50", " n0 world.fault_begins fault=CUT peer=1"));
  CHECK(said("80", " n0 world.fault_ends fault=CUT peer=1"));
  CHECK(said("100", " n1 world.fault_begins fault=KILL"));
  CHECK(said("200", " n1 world.fault_missed fault=DEVICE_FAIL count=2"));
  CHECK(said("600", " n1 world.fault_ends fault=KILL"));
  CHECK(events.front().find(" -") < events.front().find(" n"));
}

TEST_CASE("the timeline of a violation has times") {
  const auto scenario = parse_scenario(
      "node: \"all\" workload { requests: 30 gap_us: 1 answer_min: 30 } settle_s: 0 "
      "fault { kind: PAUSE at_ms: 1 for_ms: 1 }",
      "x");
  const auto violations = run_scenario(*scenario, {1, false}).violations;
  REQUIRE_FALSE(violations.empty());
  const std::string first = violations.front().timeline.front();
  CHECK(first.starts_with("      1.0"));
  CHECK(first.ends_with(" n0 world.fault_begins fault=PAUSE"));
}

TEST_CASE("a model's devices give the same hash under the same seed") {
  const auto scenario = read_scenario(SHOAL_SCENARIOS "/guppy_everything.txtpb").value();
  CHECK(run_scenario(scenario, {3, false}).hash == run_scenario(scenario, {3, false}).hash);
}

namespace {

std::string refusal(const std::string& text) {
  const auto parsed = parse_scenario(text, "x.txtpb");
  return parsed ? "accepted" : parsed.error().message;
}

bool says(const std::string& message, const std::string& words) {
  return message.find(words) != std::string::npos;
}

// Of a fault in a cluster of two nodes.
std::string refused_fault(const std::string& fault) {
  return refusal("node: \"gateway router\" node: \"prefill decode\" fault { " + fault + " }");
}

}  // namespace

TEST_CASE("a scenario that names what does not exist is refused by name") {
  CHECK(says(refusal("node: \"prefil\""), "prefil"));
  CHECK(says(refusal("nodes: \"all\""), "x.txtpb:1"));
  CHECK(says(refusal("node: \"all\" device { model: \"gupy\" }"), "known: guppy"));
  CHECK(says(refusal("node: \"all\" device { model: \"guppy\" eos_period: 9 }"), "eos_period"));
  CHECK(says(refusal("node: \"all\" reaches: \"node_kiled\""), "node_killed"));
  CHECK(says(refusal("node: \"all\" reaches: \"x\""), "known: finished, "));
}

TEST_CASE("a scenario whose numbers no run could keep to is refused by the field") {
  const std::string nodes = "node: \"all\" ";
  CHECK(says(refusal(nodes + "device { blocks: 0 }"), "device.blocks: 0 is outside 1 .. "));
  CHECK(says(refusal(nodes + "device { sequences: -1 }"), "device.sequences"));
  CHECK(says(refusal(nodes + "workload { requests: -1 }"), "workload.requests"));
  CHECK(says(refusal(nodes + "workload { answer_min: 0 }"), "workload.answer_min"));
  CHECK(says(refusal(nodes + "workload { tenants: 0 }"), "workload.tenants"));
  CHECK(says(refusal(nodes + "store { bytes: 1 }"), "store.bytes"));
  CHECK(says(refusal(nodes + "store { hours: 0 }"), "store.hours"));
  CHECK(says(refusal(nodes + "settle_s: -1"), "settle_s"));
  CHECK(says(refusal(nodes + "config { supervisor { heartbeat_ms: 0 } }"), "heartbeat_ms"));
}

TEST_CASE("a scenario that lacks a role is refused by the role") {
  CHECK(says(refusal("node: \"gateway\" node: \"prefill decode\""), "no node has the role router"));
  CHECK(says(refusal("node: \"router prefill decode\""), "no node has the role gateway"));
  CHECK(says(refusal("node: \"gateway router\" node: \"decode\""), "no node has the role prefill"));
  CHECK(says(refusal("node: \"gateway router\" node: \"prefill\""), "no node has the role decode"));
}

TEST_CASE("a fault between two nodes is refused without another node as peer") {
  for (const std::string kind : {"CUT", "RESET", "DROP_BULK", "CORRUPT_BULK", "SLOW_LINK"}) {
    CAPTURE(kind);
    CHECK(says(refused_fault("kind: " + kind + " node: 1"), "fault " + kind + ": peer: "));
    CHECK(says(refused_fault("kind: " + kind + " node: 1 peer: 1"), "another node than 1"));
    CHECK(says(refused_fault("kind: " + kind + " node: 1 peer: 2"), "nodes 0 .. 1"));
    CHECK(refused_fault("kind: " + kind + " node: 1 peer: 0") == "accepted");
  }
  CHECK(says(refused_fault("kind: KILL node: 3"), "nodes 0 .. 1"));
}

TEST_CASE("the end of a part that a node has not is refused with the parts that it has") {
  CHECK(says(refused_fault("kind: END_PART"), "it has router, decode_balancer, "));
  CHECK(says(refused_fault("kind: END_PART node: 1 part: \"decode_worker\""),
             "no \"decode_worker\"; it has prefill_group, prefill_worker.0, decode_group, "
             "decode_worker.0, peer.0"));
  for (const std::string fault : {"part: \"gateway\"",
                                  "part: \"prefill_balancer.3\"",
                                  "part: \"membership\"",
                                  "part: \"autoscaler\"",
                                  "part: \"peer.1\"",
                                  "part: \"decode_worker.0\" node: 1"}) {
    CHECK(refused_fault("kind: END_PART " + fault) == "accepted");
  }
}

TEST_CASE("a fault at a node without what it breaks is refused with the role that it needs") {
  for (const std::string kind : {"DEVICE_FAIL", "DEVICE_STUCK", "DEVICE_SLOW"}) {
    CHECK(says(refused_fault("kind: " + kind + " count: 2"), "role prefill or decode"));
    CHECK(refused_fault("kind: " + kind + " count: 2 node: 1") == "accepted");
  }
  CHECK(says(refused_fault("kind: STORM node: 1"), "role gateway"));
  CHECK(refused_fault("kind: STORM") == "accepted");
}

TEST_CASE("a fault of the KV store is refused where the nodes keep none") {
  for (const std::string kind : {"KV_AWAY",
                                 "KV_HANG",
                                 "KV_FULL",
                                 "KV_READ_ONLY",
                                 "KV_SLOW",
                                 "POWER_LOSS",
                                 "KV_FLIP",
                                 "KV_TRUNCATE",
                                 "KV_SWAP",
                                 "WALL_JUMP"}) {
    CAPTURE(kind);
    CHECK(says(refused_fault("kind: " + kind), "fault " + kind + ": the nodes keep no KV"));
    CHECK(refused_fault("kind: " + kind + " } store { ") == "accepted");
  }
  CHECK(says(refused_fault("kind: WALL_JUMP count: 0 } store { "), "other than 0"));
  CHECK(says(refused_fault("kind: KV_FLIP count: 0 } store { "), "1 or more"));
  CHECK(refusal("node: \"all\" store { } device { model: \"guppy\" }") == "accepted");
}

TEST_CASE("a fault without a kind, before the start or of no amount is refused") {
  CHECK(says(refused_fault("node: 1"), "name its kind"));
  CHECK(says(refused_fault("kind: KILL at_ms: -1"), "at_ms"));
  CHECK(says(refused_fault("kind: KILL for_ms: -1"), "for_ms"));
  CHECK(says(refused_fault("kind: DEVICE_FAIL node: 1 count: 0"), "1 or more"));
  CHECK(says(refused_fault("kind: DEVICE_SLOW node: 1"), "2 or more"));
  CHECK(says(refused_fault("kind: CLOCK_DRIFT count: 0"), "other than 0"));
}

TEST_CASE("however a prefill instance is chosen, a cluster under faults holds its invariants") {
  for (const PrefillPolicyRow& row : prefill_policies()) {
    if (row.name.starts_with("finish")) {
      continue;  // of groups that bind requests to ranks: no option of a node
    }
    CAPTURE(row.name);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      auto scenario = drawn_scenario(seed, 4);
      scenario.mutable_config()->mutable_prefill()->set_policy(std::string(row.name));
      check_clean(run_scenario(scenario, {seed, false}));
    }
  }
}

TEST_CASE("however a decode rank is chosen, a cluster under faults holds its invariants") {
  for (const DecodeRow& row : decode_policies()) {
    CAPTURE(row.name);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      auto scenario = drawn_scenario(seed, 4);
      scenario.mutable_config()->mutable_decode()->set_policy(std::string(row.name));
      check_clean(run_scenario(scenario, {seed, false}));
    }
  }
}

TEST_CASE("decode nodes that drain hand their answers over, and nothing is computed again") {
  const auto scenario =
      read_scenario(SHOAL_SCENARIOS "/decode_nodes_drained_in_turn.txtpb").value();
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = run_scenario(scenario, {seed, false});
    CHECK(outcome.counters.contains("answer_moved"));
    CHECK_FALSE(outcome.counters.contains("second_attempt"));
  }
}

TEST_CASE("routers and the last prefill node drain without a second attempt of any answer") {
  for (const std::string name : {"routers_drained_in_turn", "last_prefill_drained"}) {
    CAPTURE(name);
    const auto scenario = read_scenario(SHOAL_SCENARIOS "/" + name + ".txtpb").value();
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      CAPTURE(seed);
      const Outcome outcome = run_scenario(scenario, {seed, false});
      check_clean(outcome);
      CHECK(outcome.counters.contains("node_left"));
      CHECK_FALSE(outcome.counters.contains("second_attempt"));
    }
  }
}
