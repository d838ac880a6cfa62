// A whole node on the sim device: every answer is the device's truth, every request ends once,
// every byte of KV comes back.
#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

#include "tests/actors/node_world.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

void check_truth(World& world,
                 const kernels::SimModel& model,
                 RequestId id,
                 const Wanted& request) {
  const Answer answer = world.clients().answer(id);
  CHECK_MESSAGE(!answer.error.has_value(), (answer.error ? answer.error->message : ""));
  REQUIRE(answer.basis.has_value());
  CHECK(answer.terminal_events == 1);
  CHECK(answer.tokens == sim_answer(model, request, *answer.basis, world.node().context()));
}

}  // namespace

TEST_CASE("one request gets the device's tokens and gives all memory back") {
  World world({});
  const Wanted request = wanted(7, 300, 20);
  const RequestId id = world.clients().ask(request);
  REQUIRE(world.run_until_all_over());
  check_truth(world, {}, id, request);
  CHECK(world.clients().answer(id).finish == Finish::kLength);
  CHECK(world.clients().answer(id).tokens.size() == 20);
  world.settle();
  CHECK(world.memory_is_free());
}

TEST_CASE("bounded and exact requests keep their own basis") {
  World world({});
  Wanted request = wanted(8, 300, 5);
  const RequestId bounded = world.clients().ask(request);
  request.mode = BasisMode::kExact;
  const RequestId exact = world.clients().ask(request);
  REQUIRE(world.run_until_all_over());
  CHECK(world.clients().answer(bounded).basis->tail_start == 300 - 128);
  CHECK(world.clients().answer(exact).basis->tail_start == 0);
  CHECK(world.clients().answer(bounded).tokens != world.clients().answer(exact).tokens);
}

TEST_CASE("two hundred answers of mixed lengths and choices are all the device's truth") {
  const kernels::SimModel model{.eos_period = 40};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    World world({.seed = seed, .model = model});
    std::mt19937_64 random(seed);
    std::vector<std::pair<RequestId, Wanted>> asked;
    while (asked.size() < 200) {
      Wanted request = wanted(random(),
                              static_cast<std::int64_t>(1 + random() % 700),
                              static_cast<int>(1 + random() % 60));
      request.mode = random() % 3 == 0 ? BasisMode::kExact : BasisMode::kBounded;
      request.sampling.min_tokens = static_cast<int>(random() % 5);
      request.sampling.ignore_eos = random() % 4 == 0;
      const auto choices = static_cast<std::uint32_t>(1 + random() % 3);
      for (request.choice = 0; request.choice < choices; ++request.choice) {
        asked.emplace_back(world.clients().ask(request), request);
      }
    }
    REQUIRE(world.run_until_all_over());
    for (const auto& [id, request] : asked) {
      check_truth(world, model, id, request);
    }
    world.settle();
    CHECK(world.memory_is_free());
  }
}

TEST_CASE("answers queue for memory and all finish, the largest one too") {
  World world({.seed = 3, .size = {.blocks = 12, .sequences = 3}});
  std::vector<std::pair<RequestId, Wanted>> asked;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const Wanted request =
        wanted(i, i % 7 == 0 ? 1'400 : 200, 30);  // 12 blocks are the whole memory
    asked.emplace_back(world.clients().ask(request), request);
  }
  REQUIRE(world.run_until_all_over());
  for (const auto& [id, request] : asked) {
    check_truth(world, {}, id, request);
  }
  world.settle();
  CHECK(world.memory_is_free());
}

TEST_CASE("a request that can never fit is refused at once with both numbers") {
  World world({.size = {.blocks = 4, .sequences = 2}});
  const RequestId too_long = world.clients().ask(wanted(1, 600, 5));
  Wanted greedy = wanted(1, 100, 5);
  greedy.prompt.clear();
  const RequestId empty = world.clients().ask(greedy);
  REQUIRE(world.run_until_all_over());
  const Answer answer = world.clients().answer(too_long);
  REQUIRE(answer.error.has_value());
  CHECK(answer.error->code == Code::kTooLarge);
  CHECK(answer.error->message.find("600") != std::string::npos);
  CHECK(answer.error->message.find("512") != std::string::npos);
  CHECK(world.clients().answer(empty).error->code == Code::kInvalid);
}

TEST_CASE("a full queue refuses and says when to come back") {
  World world({.size = {.blocks = 16, .sequences = 1}, .configure = [](Config& config) {
                 config.mutable_prefill()->set_queue(2);
                 config.mutable_prefill()->set_group_queue(1);
               }});
  for (std::uint64_t i = 0; i < 10; ++i) {
    world.clients().ask(wanted(i, 50, 200));
  }
  REQUIRE(world.run_until_all_over());
  int refused = 0;
  for (std::uint64_t id = 1; id <= 10; ++id) {
    const Answer answer = world.clients().answer(RequestId{id});
    if (answer.error) {
      CHECK(answer.error->code == Code::kNoCapacity);
      CHECK(answer.retry_after.has_value());
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK(refused < 10);
}

TEST_CASE("the node's ceiling of open answers holds") {
  World world({.configure = [](Config& config) { config.mutable_request()->set_ceiling(3); }});
  world.hold_steps(true);
  for (std::uint64_t i = 0; i < 5; ++i) {
    world.clients().ask(wanted(i, 50, 5));
  }
  REQUIRE(world.run([&] { return world.clients().open() == 3; }));
  world.hold_steps(false);
  REQUIRE(world.run_until_all_over());
}

TEST_CASE("clients that leave at random moments give everything back") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world({.seed = seed});
    std::mt19937_64 random(seed);
    std::vector<RequestId> open;
    for (std::uint64_t i = 0; i < 30; ++i) {
      open.push_back(
          world.clients().ask(wanted(i, static_cast<std::int64_t>(1 + random() % 600), 50)));
    }
    while (!open.empty()) {
      const Instant until = world.now() + std::chrono::microseconds(random() % 3'000);
      world.run([&] { return world.now() >= until; });
      const auto which = static_cast<std::ptrdiff_t>(random() % open.size());
      world.clients().leave(open[static_cast<std::size_t>(which)]);
      open.erase(open.begin() + which);
    }
    world.settle();
    CHECK(world.memory_is_free());
    world.node().start_draining(Nanos{0});
    world.settle();
    CHECK(world.node().drain(Nanos{0}));
  }
}

TEST_CASE("a client that leaves frees its memory within the step that runs") {
  World world({});
  const RequestId id = world.clients().ask(wanted(1, 200, 1'000));
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  world.hold_steps(true);
  world.settle();
  world.clients().leave(id);
  world.settle();
  world.hold_steps(false);
  world.settle();
  CHECK(world.memory_is_free());
}

TEST_CASE("a stop string ends the work behind it") {
  World world({});
  const RequestId id = world.clients().ask(wanted(1, 200, 1'000));
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  world.clients().stop_at(id, 203);
  world.settle();
  CHECK(world.memory_is_free());
  CHECK(world.clients().answer(id).terminal_events == 1);
}

TEST_CASE("the log says how many tokens an answer had, however it ended") {
  World world({});
  const RequestId whole = world.clients().ask(wanted(1, 200, 7));
  REQUIRE(world.run_until_all_over());
  const RequestId stopped = world.clients().ask(wanted(2, 200, 1'000));
  REQUIRE(world.run([&] { return world.clients().answer(stopped).tokens.size() >= 5; }));
  world.clients().stop_at(stopped, 203);
  const RequestId left = world.clients().ask(wanted(3, 200, 1'000));
  REQUIRE(world.run([&] { return world.clients().answer(left).tokens.size() >= 5; }));
  world.fail_steps(1);  // the tokens of every attempt count
  REQUIRE(world.run([&] { return world.clients().answer(left).attempts == 2; }));
  const std::size_t before = world.clients().answer(left).tokens.size();
  REQUIRE(world.run([&] { return world.clients().answer(left).tokens.size() > before; }));
  world.hold_steps(true);
  world.settle();
  world.clients().leave(left);
  world.settle();
  const auto told = [&world](RequestId request, std::size_t tokens) {
    const std::string name = "request=" + std::to_string(request.value) + " ";
    return std::ranges::any_of(world.events(), [&](const std::string& event) {
      return event.find(name) != std::string::npos &&
             event.ends_with(" tokens=" + std::to_string(tokens));
    });
  };
  CHECK(told(whole, 7));
  CHECK(told(stopped, 3));
  CHECK(told(left, world.clients().answer(left).tokens.size()));
  world.hold_steps(false);
}

TEST_CASE("a deadline ends a request wherever it is") {
  const auto expires = [](std::int64_t blocks_of_first, bool hold, std::size_t tokens_first) {
    World world({.size = {.blocks = 8, .sequences = 1}});
    if (blocks_of_first > 0) {  // somebody holds the only slot
      world.clients().ask(wanted(9, 100, static_cast<int>(blocks_of_first * 100)));
    }
    Wanted request = wanted(1, 100, 900);
    request.deadline = world.now() + seconds(2);
    const RequestId id = world.clients().ask(request);
    if (tokens_first > 0) {
      REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= tokens_first; }));
    }
    world.hold_steps(hold);
    REQUIRE(world.run([&] { return world.clients().answer(id).over(); }, seconds(4)));
    CHECK(world.clients().answer(id).error->code == Code::kDeadline);
    CHECK(world.clients().answer(id).terminal_events == 1);
    CHECK(world.now() < request.deadline + milliseconds(200));
    world.hold_steps(false);
    REQUIRE(world.run_until_all_over());
    world.settle();
    CHECK(world.memory_is_free());
  };
  expires(8, true, 0);  // queued behind somebody
  expires(0, true, 0);  // in prefill
  expires(0, true, 3);  // in decode
}

TEST_CASE("a drain lets open answers finish and refuses new ones") {
  World world({});
  const Wanted request = wanted(1, 200, 50);
  const RequestId id = world.clients().ask(request);
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  CHECK_FALSE(world.node().drain(Nanos{0}));
  const RequestId late = world.clients().ask(wanted(2, 10, 5));
  CHECK(world.clients().answer(late).error->code == Code::kUnavailable);
  CHECK(world.node().health().state == PartState::kDraining);
  REQUIRE(world.run_until_all_over());
  check_truth(world, {}, id, request);
  world.settle();
  CHECK(world.node().drain(Nanos{0}));
}

TEST_CASE("a drain of the only node lets answers finish that were queued when it began") {
  World world({});
  std::vector<std::pair<RequestId, Wanted>> asked;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const Wanted request = wanted(i, 300, 30);
    asked.emplace_back(world.clients().ask(request), request);
  }
  world.node().start_draining(Nanos{0});
  REQUIRE(world.run_until_all_over());
  for (const auto& [id, request] : asked) {
    check_truth(world, {}, id, request);
  }
}

TEST_CASE("a node that stops fails what is open, once") {
  World world({});
  const RequestId id = world.clients().ask(wanted(1, 200, 500));
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  CHECK(world.node().shut_down(Nanos{0}));
  const Answer answer = world.clients().answer(id);
  REQUIRE(answer.error.has_value());
  CHECK(answer.error->code == Code::kUnavailable);
  CHECK(answer.terminal_events == 1);
  CHECK(world.memory_is_free());
}

TEST_CASE("any part may die and every answer still has the same tokens") {
  const std::vector<std::string> parts = {"prefill_worker.0",
                                          "decode_worker.0",
                                          "router",
                                          "prefill_group",
                                          "decode_group",
                                          "decode_balancer",
                                          "prefill_balancer.0"};
  std::uint32_t retried = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    World world({.seed = seed, .stream = {.attempts = 50}});
    std::mt19937_64 random(seed);
    std::vector<std::pair<RequestId, Wanted>> asked;
    for (int i = 0; i < 20; ++i) {
      Wanted request = wanted(random(),
                              static_cast<std::int64_t>(1 + random() % 500),
                              static_cast<int>(1 + random() % 60));
      request.mode = random() % 2 == 0 ? BasisMode::kExact : BasisMode::kBounded;
      asked.emplace_back(world.clients().ask(request), request);
    }
    for (int kills = 0; kills < 4; ++kills) {
      const Instant until = world.now() + std::chrono::microseconds(random() % 20'000);
      world.run([&] { return world.now() >= until; });
      world.node().end_part(parts[random() % parts.size()]);
    }
    REQUIRE(world.run_until_all_over());
    for (const auto& [id, request] : asked) {
      check_truth(world, {}, id, request);
      retried += world.clients().answer(id).attempts > 1 ? 1 : 0;
    }
    world.settle();
    CHECK(world.memory_is_free());
    CHECK(world.run([&] { return world.node().health().state == PartState::kOk; }, seconds(5)));
  }
  CHECK(retried > 0);  // else nothing was tried
}

TEST_CASE("a step that fails on the device is tried again, with the same tokens") {
  World world({});
  const Wanted request = wanted(1, 200, 30);
  const RequestId id = world.clients().ask(request);
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  world.fail_steps(1);
  REQUIRE(world.run_until_all_over());
  check_truth(world, {}, id, request);
  CHECK(world.clients().answer(id).attempts == 2);
}

TEST_CASE("a device that stays broken ends the request after its attempts, once") {
  World world({});
  world.fail_steps(1'000);
  const RequestId id = world.clients().ask(wanted(1, 200, 30));
  REQUIRE(world.run_until_all_over());
  const Answer answer = world.clients().answer(id);
  REQUIRE(answer.error.has_value());
  CHECK(answer.error->code == Code::kUnavailable);
  CHECK(answer.attempts == 5);
  CHECK(answer.terminal_events == 1);
  world.settle();
  CHECK(world.memory_is_free());
}

TEST_CASE("parts that die again and again make a dead node, and it refuses") {
  World world({.configure = [](Config& config) { config.mutable_supervisor()->set_restarts(3); }});
  for (int i = 0; i < 4; ++i) {
    world.node().end_part("decode_worker.0");
    world.settle();
  }
  CHECK(world.run([&] { return world.node().health().state == PartState::kDead; }, seconds(1)));
  CHECK_FALSE(world.node().can_serve());
  const RequestId id = world.clients().ask(wanted(1, 10, 5));
  CHECK(world.clients().answer(id).error->code == Code::kUnavailable);
}

TEST_CASE("health says dead when the gateway is lost, and nothing hangs") {
  World world({});
  const RequestId id = world.clients().ask(wanted(1, 200, 500));
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  world.node().end_part("gateway");
  REQUIRE(world.run_until_all_over());
  CHECK(world.clients().answer(id).terminal_events == 1);
  CHECK(world.run([&] { return world.node().health().state == PartState::kDead; }, seconds(2)));
  CHECK_FALSE(world.node().can_serve());
  world.settle();
  CHECK(world.memory_is_free());
  const RequestId late = world.clients().ask(wanted(2, 10, 5));
  CHECK(world.run([&] { return world.clients().answer(late).over(); }, seconds(1)));
}

TEST_CASE("a node whose supervisor died cannot serve, says so, and leaves nobody waiting") {
  World world({});
  const RequestId id = world.clients().ask(wanted(1, 200, 500));
  REQUIRE(world.run([&] { return world.clients().answer(id).tokens.size() >= 5; }));
  world.node().end_part("supervisor");
  REQUIRE(world.run_until_all_over());
  CHECK(world.clients().answer(id).terminal_events == 1);
  CHECK_FALSE(world.node().can_serve());
  CHECK(std::any_of(world.events().begin(), world.events().end(), [](const std::string& line) {
    return line.find("node.dead") != std::string::npos &&
           line.find("supervisor") != std::string::npos;
  }));
  const RequestId late = world.clients().ask(wanted(2, 10, 5));
  CHECK(world.clients().answer(late).error->code == Code::kUnavailable);
}

TEST_CASE("a node that is shut down does not call that the end of its supervisor") {
  World world({});
  world.settle();
  REQUIRE(world.node().shut_down(seconds(5)));
  CHECK(std::none_of(world.events().begin(), world.events().end(), [](const std::string& line) {
    return line.find("node.dead") != std::string::npos;
  }));
}

TEST_CASE("health is ok when idle, busy with work, degraded when work does not move") {
  World world(
      {.configure = [](Config& config) { config.mutable_supervisor()->set_stall_ms(2'000); }});
  CHECK(world.node().health().state == PartState::kStarting);
  REQUIRE(world.run([&] { return world.node().health().state == PartState::kOk; }, seconds(1)));
  world.clients().ask(wanted(1, 200, 50));
  world.hold_steps(true);
  REQUIRE(world.run([&] { return world.node().health().state == PartState::kBusy; }, seconds(1)));
  REQUIRE(
      world.run([&] { return world.node().health().state == PartState::kDegraded; }, seconds(3)));
  world.hold_steps(false);
  REQUIRE(world.run([&] { return world.node().health().state == PartState::kOk; }, seconds(5)));
}

std::int64_t fed_rows_of(const Node& node) {
  constexpr std::string_view kName = "\nshoal_drafts_fed_rows_total ";
  const std::string text = node.metrics_text();
  const std::size_t at = text.find(kName);
  REQUIRE(at != std::string::npos);
  return std::stoll(text.substr(at + kName.size()));
}

TEST_CASE("prompts and answers are shown to the draft stages while drafts may pay") {
  const auto fed_rows = [](Nanos draft) {
    World world({.model = {.drafts = 5},
                 .cost = {.step = std::chrono::milliseconds(1), .row = Nanos{0}, .draft = draft}});
    world.clients().ask(wanted(1, 300, 200));
    REQUIRE(world.run_until_all_over());
    const std::int64_t before = fed_rows_of(world.node());
    CHECK(before > 300);
    world.clients().ask(wanted(2, 300, 50));
    REQUIRE(world.run_until_all_over());
    return fed_rows_of(world.node()) - before;
  };
  CHECK(fed_rows(Nanos{0}) >= 300 + 49);
  CHECK(fed_rows(std::chrono::milliseconds(20)) == 0);
}

TEST_CASE("the same seed gives the same events") {
  const auto events = [](std::uint64_t seed) {
    World world({.seed = seed});
    for (std::uint64_t i = 0; i < 10; ++i) {
      world.clients().ask(wanted(i, 100 + static_cast<std::int64_t>(i) * 30, 20));
    }
    REQUIRE(world.run_until_all_over());
    return world.events();
  };
  CHECK(events(4) == events(4));
  CHECK(events(4) != events(5));
}

TEST_CASE("counters tell what happened") {
  World world({});
  const Wanted request = wanted(1, 200, 10);
  world.clients().ask(request);
  REQUIRE(world.run_until_all_over());
  world.settle();
  const std::string text = world.node().metrics_text();
  CHECK(text.find("shoal_attempts_finished_total 1\n") != std::string::npos);
  CHECK(text.find("shoal_prefill_rows_total 200\n") != std::string::npos);
  CHECK(text.find("shoal_decode_rows_total 9\n") != std::string::npos);
  CHECK(text.find("shoal_kv_blocks_free 64\n") != std::string::npos);
}
