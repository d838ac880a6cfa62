// The router's timeline of a request tells each step with what was decided.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

#include "tests/actors/node_world.h"

using namespace shoal;
using namespace shoal::testing;

namespace {

std::vector<std::string> events_of(const RequestTimeline& timeline) {
  std::vector<std::string> events;
  for (const TimelineEntry& entry : timeline.entries) {
    events.emplace_back(entry.event);
  }
  return events;
}

// "-": the entry has no such field.
std::string field_of(const TimelineEntry& entry, std::string_view name) {
  for (const TimelineField& field : entry.fields) {
    if (field.name == name) {
      const auto* number = std::get_if<std::int64_t>(&field.value);
      return number != nullptr ? std::to_string(*number) : std::get<std::string>(field.value);
    }
  }
  return "-";
}

}  // namespace

TEST_CASE("a finished request is told from its arrival to its end, with its basis") {
  World world({});
  const RequestId request = world.clients().ask(wanted(1, 300, 5));
  REQUIRE(world.run_until_all_over());
  world.settle();
  const auto timeline = world.node().explain(request);
  REQUIRE(timeline.has_value());
  CHECK(events_of(*timeline) == std::vector<std::string>{"received",
                                                         "accepted",
                                                         "prefill_placed",
                                                         "prefill_started",
                                                         "prefill_done",
                                                         "decode_placed",
                                                         "decode_joined",
                                                         "answer_done"});
  CHECK(std::is_sorted(timeline->entries.begin(),
                       timeline->entries.end(),
                       [](const auto& a, const auto& b) { return a.at < b.at; }));
  CHECK(timeline->entries[0].state == "received");
  CHECK(field_of(timeline->entries[0], "prompt") == "300");
  const TimelineEntry& accepted = timeline->entries[1];
  CHECK(accepted.state == "queued");
  CHECK(field_of(accepted, "mode") == "bounded");
  CHECK(field_of(accepted, "tail_start") == "172");
  CHECK(field_of(accepted, "class") == "1");
  CHECK(timeline->entries.back().state == "finished");
  CHECK(field_of(timeline->entries.back(), "tokens") == "5");
}

TEST_CASE("a lost attempt is told with its reason, and the next one goes on in the same timeline") {
  World world({});
  const RequestId request = world.clients().ask(wanted(2, 300, 5));
  world.fail_steps(1);
  REQUIRE(world.run_until_all_over());
  world.settle();  // the router hears of the end behind the client
  const auto timeline = world.node().explain(request);
  REQUIRE(timeline.has_value());
  const auto lost = std::find_if(timeline->entries.begin(),
                                 timeline->entries.end(),
                                 [](const auto& entry) { return entry.event == "lost"; });
  REQUIRE(lost != timeline->entries.end());
  CHECK(lost->attempt == AttemptId{1});
  CHECK(lost->state == "failed");
  CHECK(field_of(*lost, "retry") == "1");
  CHECK(field_of(*lost, "reason") != "-");
  CHECK(timeline->entries.back().attempt == AttemptId{2});
  CHECK(timeline->entries.back().event == "answer_done");
}

TEST_CASE("an accepted request says why it takes what it takes of kept KV") {
  World world({});
  const RequestId request = world.clients().ask(wanted(1, 300, 5));
  REQUIRE(world.run_until_all_over());
  const auto timeline = world.node().explain(request);
  REQUIRE(timeline.has_value());
  CHECK(field_of(timeline->entries[1], "kv_reason") == "no_store");
  CHECK(field_of(timeline->entries[1], "stored") == "0");
}

TEST_CASE("a request that does not fit is told with what it needs and what there is") {
  World world({.size = {.blocks = 4, .sequences = 8}});
  const RequestId request = world.clients().ask(wanted(1, 600, 5));
  REQUIRE(world.run_until_all_over());
  const auto timeline = world.node().explain(request);
  REQUIRE(timeline.has_value());
  const TimelineEntry& refused = timeline->entries.back();
  CHECK(refused.event == "refused");
  CHECK(field_of(refused, "why") == "cannot_fit");
  CHECK(field_of(refused, "context") == "512");
  CHECK(field_of(refused, "blocks_most") == "4");
}

TEST_CASE("a request beyond the open answers of the node is told, though no router heard of it") {
  World world({.configure = [](Config& config) { config.mutable_request()->set_ceiling(1); }});
  world.clients().ask(wanted(1, 100, 50));
  const RequestId late = world.clients().ask(wanted(2, 100, 5));
  REQUIRE(world.run([&] { return world.clients().answer(late).over(); }));
  const auto timeline = world.node().explain(late);
  REQUIRE(timeline.has_value());
  CHECK(field_of(timeline->entries.back(), "why") == "node_full");
  CHECK(field_of(timeline->entries.back(), "open") == "1");
}

TEST_CASE("nothing is told of a request that never came") {
  World world({});
  CHECK_FALSE(world.node().explain(RequestId{99}).has_value());
}
