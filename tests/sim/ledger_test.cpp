// The ledger over several processes: a failed hand-over costs no second prefill, and a deadline
// ends a request in whatever state it is.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

#include "actors/policy/request_machine.h"
#include "tests/sim/cluster_setup.h"
#include "tests/sim/event_line.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr NodeId kFrontNode{0};
constexpr NodeId kPrefillNode{1};
constexpr int kSeeds = 10;

testing::Clients& clients(World& world) {
  return world.clients(kFrontNode);
}

RequestId ask(World& world, Instant deadline = Instant(Nanos::max() / 2)) {
  testing::Wanted wanted = testing::wanted(7, 300, 20);
  wanted.deadline = deadline;
  return clients(world).ask(wanted);
}

bool has_logged(const World& world, std::string_view event) {
  const auto& events = world.events();
  return std::any_of(events.begin(), events.end(), [event](const std::string& line) {
    return line.find(event) != std::string::npos;
  });
}

bool run_until_logged(World& world, std::string_view event) {
  return world.run([&world, event] { return has_logged(world, event); }, seconds(60));
}

std::int64_t prefilled_rows(World& world, NodeId node) {
  constexpr std::string_view kName = "\nshoal_prefill_rows_total ";
  const std::string text = world.node(node).metrics_text();
  return std::stoll(text.substr(text.find(kName) + kName.size()));
}

// Where the hand-over goes.
NodeId decode_node(const World& world) {
  for (const std::string& line : world.events()) {
    if (event_name(line) == "decode.placed") {
      return NodeId{static_cast<std::uint32_t>(std::stoul(event_field(line, "node")))};
    }
  }
  FAIL("nothing was placed");
  return {};
}

void check_truth(World& world, RequestId request, std::uint32_t attempts) {
  const testing::Answer answer = clients(world).answer(request);
  CAPTURE((answer.error ? answer.error->message : std::string()));
  REQUIRE(answer.terminal_events == 1);
  REQUIRE_FALSE(answer.error.has_value());
  CHECK(answer.attempts == attempts);
  CHECK(answer.tokens ==
        testing::sim_answer({}, clients(world).asked(request), *answer.basis, 4096));
}

bool settle_memory(World& world) {
  return world.run([&world] { return world.memory_is_free(); }, seconds(20));
}

std::int64_t rows_of_one_prefill() {
  World world(setup_of({kFront, kPrefill, kDecode}, 1));
  REQUIRE(world.run_until_whole());
  ask(world);
  REQUIRE(world.run_until_all_over(seconds(60)));
  return prefilled_rows(world, kPrefillNode);
}

}  // namespace

TEST_CASE(
    "a decode node killed during a hand-over: another one fetches the KV, no second prefill") {
  const std::int64_t rows = rows_of_one_prefill();
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const RequestId request = ask(world);
    REQUIRE(run_until_logged(world, "request.handing_over"));
    world.kill(decode_node(world));
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(world, request, 1);
    CHECK(has_logged(world, "event=decode_lost"));
    CHECK(prefilled_rows(world, kPrefillNode) == rows);
    CHECK(settle_memory(world));
  }
}

TEST_CASE("a decode device that fails to take the KV is given it again") {
  const std::int64_t rows = rows_of_one_prefill();
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    World world(setup_of({kFront, kPrefill, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const RequestId request = ask(world);
    REQUIRE(run_until_logged(world, "request.handing_over"));
    world.device(NodeId{2}).fail_next(kMostHandovers - 1);
    REQUIRE(world.run_until_all_over(seconds(60)));
    check_truth(world, request, 1);
    CHECK(prefilled_rows(world, kPrefillNode) == rows);
    CHECK(settle_memory(world));
  }
}

TEST_CASE(
    "a hand-over that fails too often, or with the node that has the KV, is another attempt") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const bool prefill_dies : {false, true}) {
      CAPTURE(seed);
      CAPTURE(prefill_dies);
      World world(setup_of({kFront, kPrefill, kDecode, kPrefill}, seed));
      REQUIRE(world.run_until_whole());
      const RequestId request = ask(world);
      REQUIRE(run_until_logged(world, "request.handing_over"));
      if (prefill_dies) {
        world.kill(NodeId{prefilled_rows(world, NodeId{1}) > 0 ? 1U : 3U});
      } else {
        world.device(NodeId{2}).fail_next(kMostHandovers);
      }
      REQUIRE(world.run_until_all_over(seconds(60)));
      check_truth(world, request, 2);
      CHECK(settle_memory(world));
    }
  }
}

TEST_CASE("a prefill worker that dies with KV it is copying out costs another attempt at once") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const char* state : {"prefill.first_token", "request.queued_decode"}) {
      CAPTURE(seed);
      CAPTURE(state);
      World world(setup_of({kFront, kPrefill, kDecode}, seed));
      REQUIRE(world.run_until_whole());
      const RequestId request = ask(world);
      REQUIRE(run_until_logged(world, state));
      world.break_part(kPrefillNode, "prefill_worker.0");
      REQUIRE(world.run_until_all_over(seconds(1)));
      check_truth(world, request, 2);
      CHECK(settle_memory(world));
    }
  }
}

TEST_CASE("a deadline ends a request once and in time in whatever state it is, and frees it all") {
  struct Case {
    std::string_view state;  // it stays in
    NodeId held;             // the device that completes nothing from `from` on
    std::string_view from;
  };

  const Case cases[] = {
      {"queued", kPrefillNode, "n0"},
      {"prefilling", kPrefillNode, "request.prefilling"},
      {"queued_decode", NodeId{2}, "n0"},
      {"handing_over", NodeId{2}, "request.queued_decode"},
      {"decoding", NodeId{2}, "request.decoding"},
  };
  for (const Case& one : cases) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      CAPTURE(one.state);
      CAPTURE(seed);
      WorldSetup setup = setup_of({kFront, kPrefill, kDecode}, seed);
      setup.configure = [](Config& config) { config.mutable_decode()->set_max_batch(1); };
      World world(setup);
      REQUIRE(world.run_until_whole());
      // Whoever comes first holds the only place; the other one waits for it.
      const Instant deadline = world.now_at(kFrontNode) + seconds(3);
      const std::vector<RequestId> asked = {ask(world, deadline), ask(world, deadline)};
      REQUIRE(run_until_logged(world, one.from));
      world.device(one.held).hold(true);
      REQUIRE(world.run_until_all_over(seconds(10)));
      CHECK(world.now_at(kFrontNode) < deadline + setup.stream.deadline_grace + milliseconds(100));
      world.run_for(seconds(2));
      for (const RequestId request : asked) {
        const testing::Answer answer = clients(world).answer(request);
        CHECK(answer.terminal_events == 1);
        REQUIRE(answer.error.has_value());
        CHECK(answer.error->code == Code::kDeadline);
      }
      CHECK(has_logged(world, "deadline passed while it was " + std::string(one.state)));
      world.device(one.held).hold(false);
      CHECK(settle_memory(world));
    }
  }
}
