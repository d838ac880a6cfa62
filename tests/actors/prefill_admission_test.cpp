// A request whose first token would come too late is refused at once, when enough is known.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <variant>

#include "tests/actors/node_world.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// A row takes 10 ms: a prompt of 300 takes three seconds.
World::Setup slow_world() {
  return {.size = {.blocks = 128, .sequences = 8},
          .cost = {.step = milliseconds(1), .row = milliseconds(10)}};
}

// Prompts of 20 to 420 tokens, one after the other.
void answer_prompts(World& world, int count) {
  for (int i = 0; i < count; ++i) {
    world.clients().ask(wanted(static_cast<std::uint64_t>(i), 20 + i * 37 % 400, 2));
    REQUIRE(world.run_until_all_over());
  }
}

RequestId ask_within(World& world, std::int64_t prompt, Nanos time) {
  Wanted request = wanted(99, prompt, 2);
  request.deadline = world.now() + time;
  return world.clients().ask(request);
}

std::variant<std::int64_t, std::string> field(const TimelineFields& fields, std::string_view name) {
  const auto found = std::find_if(
      fields.begin(), fields.end(), [name](const TimelineField& f) { return f.name == name; });
  REQUIRE(found != fields.end());
  return found->value;
}

}  // namespace

TEST_CASE("a prompt that cannot be read in its time is refused at once, with a time to come back") {
  World world(slow_world());
  answer_prompts(world, 80);
  world.hold_steps(true);
  const RequestId hopeless = ask_within(world, 300, seconds(1));
  REQUIRE(world.run([&] { return world.clients().answer(hopeless).over(); }, milliseconds(500)));
  const Answer refused = world.clients().answer(hopeless);
  CHECK(refused.error->code == Code::kNoCapacity);
  CHECK(refused.error->message.find("longer timeout") != std::string::npos);
  REQUIRE(refused.retry_after.has_value());
  CHECK(*refused.retry_after >= seconds(1));
  CHECK(*refused.retry_after < seconds(4));
  const TimelineFields told = world.node().explain(hopeless)->entries.back().fields;
  CHECK(std::get<std::string>(field(told, "why")) == "too_late");
  CHECK(std::get<std::int64_t>(field(told, "left_ns")) <= Nanos(seconds(1)).count());
  CHECK(std::get<std::int64_t>(field(told, "first_token_ns")) > Nanos(seconds(2)).count());
  world.hold_steps(false);
  const RequestId patient = ask_within(world, 300, seconds(5));
  REQUIRE(world.run_until_all_over());
  CHECK_FALSE(world.clients().answer(patient).error.has_value());
}

TEST_CASE("what waits already counts: the second of two long prompts is refused") {
  World world(slow_world());
  answer_prompts(world, 80);
  world.hold_steps(true);
  const RequestId first = ask_within(world, 300, seconds(5));
  world.run([] { return false; }, milliseconds(100));
  const RequestId second = ask_within(world, 300, seconds(5));
  REQUIRE(world.run([&] { return world.clients().answer(second).over(); }, milliseconds(500)));
  CHECK(world.clients().answer(second).error->code == Code::kNoCapacity);
  CHECK(*world.clients().answer(second).retry_after < seconds(4));
  world.hold_steps(false);
  REQUIRE(world.run_until_all_over());
  CHECK_FALSE(world.clients().answer(first).error.has_value());
}

TEST_CASE("while few steps ran nobody is refused by a prediction, whatever it says") {
  World world(slow_world());
  answer_prompts(world, 10);
  const RequestId request = ask_within(world, 300, seconds(1));
  world.run([] { return false; }, milliseconds(20));
  CHECK_FALSE((world.clients().answer(request).error &&
               world.clients().answer(request).error->code == Code::kNoCapacity));
}

TEST_CASE("the node says what its steps cost, and how far off it was") {
  World world(slow_world());
  answer_prompts(world, 80);
  const CostMetrics& costs = world.node().metrics().prefill_cost;
  CHECK(costs.steps >= 80);
  // Decode steps are learned apart, and the sim device knows no halves: what a row costs is found
  // between the rows and those that run deep.
  CHECK(costs.error_ppm < 50'000);
  CHECK(world.node().metrics().decode_cost.steps > 0);
  const std::string page = world.node().metrics_text();
  CHECK(page.find("shoal_prefill_cost_error_ppm ") != std::string::npos);
  CHECK(page.find("shoal_decode_cost_row_ps ") != std::string::npos);
}

TEST_CASE("what a prompt will take is told with what the steps before took") {
  World world(slow_world());
  answer_prompts(world, 80);
  const RequestId id = ask_within(world, 300, minutes(5));
  REQUIRE(world.run_until_all_over());
  const auto timeline = world.node().explain(id);
  REQUIRE(timeline.has_value());
  std::int64_t work = 0;
  std::int64_t first_token = 0;
  for (const TimelineEntry& entry : timeline->entries) {
    for (const TimelineField& field : entry.fields) {
      const auto* number = std::get_if<std::int64_t>(&field.value);
      work = field.name == "work_ns" ? *number : work;
      first_token = field.name == "first_token_ns" ? *number : first_token;
    }
  }
  CHECK(Nanos{work} > seconds(2));
  CHECK(Nanos{work} < seconds(4));
  CHECK(first_token >= work);
}
