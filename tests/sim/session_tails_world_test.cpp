// Turns go on from where their session's last answer ended, whichever node kept it, and answers
// that a node's death cut off from where their prompt ended.
#include <doctest/doctest.h>
#include <vector>

#include "tests/sim/kv_sessions.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

WorldSetup keeping(std::vector<NodeRoles> nodes,
                   std::uint64_t seed,
                   std::int64_t tail_ms = 20'000) {
  WorldSetup setup = setup_of(std::move(nodes), seed);
  setup.keeps_kv = true;
  setup.configure = [tail_ms](Config& config) { config.mutable_kv()->set_tail_ms(tail_ms); };
  return setup;
}

// An answer of known length.
testing::Wanted long_story(std::uint64_t seed,
                           std::int64_t prompt,
                           BasisMode mode = BasisMode::kBounded,
                           int answer = 20) {
  testing::Wanted wanted = story(seed, prompt, mode, answer);
  wanted.sampling.ignore_eos = true;
  return wanted;
}

testing::Wanted next_turn(const testing::Wanted& before,
                          const testing::Answer& answer,
                          std::int64_t more) {
  testing::Wanted next = before;
  next.prompt.insert(next.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  const std::vector<TokenId> said = testing::wanted(99, more, 1).prompt;
  next.prompt.insert(next.prompt.end(), said.begin(), said.end());
  return next;
}

// By its first attempt.
testing::Answer ask_once(World& world, const testing::Wanted& wanted) {
  const testing::Answer answer = ask(world, wanted);
  check_true(world, answer, wanted);
  CHECK(answer.attempts == 1);
  return answer;
}

std::int64_t prefill_rows(World& world) {
  std::int64_t rows = 0;
  for (std::uint32_t n = 0; n < world.size(); ++n) {
    rows += world.alive(NodeId{n}) ? world.node(NodeId{n}).metrics().prefill_rows.load() : 0;
  }
  return rows;
}

bool nothing_leased(World& world) {
  for (std::uint32_t n = 0; n < world.size(); ++n) {
    if (world.alive(NodeId{n}) && world.node(NodeId{n}).metrics().kv_leases != 0) {
      return false;
    }
  }
  return true;
}

bool is_quiet(World& world) {
  return world.run(
      [&world] {
        return world.memory_is_free() && world.nothing_offered() && nothing_leased(world);
      },
      seconds(60));
}

// Calls `test` with a world and the seed that it has.
template <class Test>
void for_each_cluster(const Test& test) {
  sim::for_each_cluster([](const auto& nodes, std::uint64_t seed) { return keeping(nodes, seed); },
                        test);
}

}  // namespace

TEST_CASE("the next turn goes on from the last one's answer, whichever node has its tail") {
  for_each_cluster([](World& world, std::uint64_t seed) {
    for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
      CAPTURE(static_cast<int>(mode));
      const testing::Wanted first = long_story(seed, 300, mode);
      const testing::Answer answer = ask_once(world, first);
      const testing::Wanted second = next_turn(first, answer, 60);
      const testing::Answer next = ask_once(world, second);
      CHECK(next.cached_tokens == 319);  // the answer's last token was never computed
      CHECK(next.basis == answer.basis);
      // Its own tail, then, behind a prompt that is longer than a window.
      const testing::Answer third = ask_once(world, next_turn(second, next, 200));
      CHECK(third.cached_tokens == 319 + 1 + 60 + 19);
      CHECK(third.basis->replay_floor == 0);
    }
    CHECK(is_quiet(world));
  });
}

TEST_CASE("a session that computed across a damaged block goes on from its tail") {
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    CAPTURE(static_cast<int>(mode));
    for_each_cluster([mode](World& world, std::uint64_t seed) {
      const testing::Wanted wanted = long_story(seed, 900, mode);
      ask_once(world, wanted);
      damage_records(world, 3);
      const testing::Answer answer = ask_once(world, wanted);
      CHECK(answer.cached_tokens == 384);
      CHECK(ask_once(world, next_turn(wanted, answer, 60)).cached_tokens == 919);
      CHECK(is_quiet(world));
    });
  }
}

TEST_CASE("a client that leaves has its next turn go on from where it left") {
  for_each_cluster([](World& world, std::uint64_t seed) {
    testing::Clients& clients = world.clients(NodeId{0});
    const testing::Wanted first = long_story(seed, 300, BasisMode::kBounded, 200);
    const RequestId request = clients.ask(first);
    REQUIRE(world.run([&] { return clients.answer(request).tokens.size() > 30; }, seconds(60)));
    clients.leave(request);
    world.run_for(seconds(3));
    const testing::Wanted second = next_turn(first, clients.answer(request), 60);
    CHECK(ask_once(world, second).cached_tokens > 300);
    CHECK(is_quiet(world));
  });
}

TEST_CASE("a tail that is too old is no more, and the turn starts behind blocks") {
  World world(keeping({kFront, kPrefill, kDecode}, 1, 2'000));
  REQUIRE(world.run_until_whole());
  const testing::Wanted first = long_story(1, 700);
  const testing::Wanted second = next_turn(first, ask_once(world, first), 60);
  CHECK(ask_once(world, second).cached_tokens == 640);
}

TEST_CASE("nobody goes on from another tenant's tail") {
  World world(keeping({kFront, kPrefill, kDecode}, 1));
  REQUIRE(world.run_until_whole());
  testing::Wanted first = long_story(1, 300);
  first.tenant = "one";
  testing::Wanted second = next_turn(first, ask_once(world, first), 60);
  second.tenant = "another";
  CHECK(ask_once(world, second).cached_tokens == 0);
  second.tenant = "one";
  CHECK(ask_once(world, second).cached_tokens > 300);
}

TEST_CASE("the tail of another session is refused, whatever leads to it") {
  WorldSetup setup = keeping({kFront, kPrefill, kDecode}, 1);
  setup.tamper.fetched = [](NodeId from, BufferKey key) {
    return from == NodeId{2} ? BufferKey{1} : key;  // where decode keeps the first one
  };
  World world(setup);
  REQUIRE(world.run_until_whole());
  const testing::Wanted one = long_story(1, 300);
  const testing::Wanted other = long_story(2, 300);
  const testing::Wanted right = next_turn(one, ask_once(world, one), 60);
  const testing::Wanted wrong = next_turn(other, ask_once(world, other), 60);
  const RequestId request = world.clients(NodeId{0}).ask(wrong);
  REQUIRE(world.run_until_all_over(seconds(120)));
  const testing::Answer answer = world.clients(NodeId{0}).answer(request);
  check_true(world, answer, wrong);
  CHECK(answer.attempts == 1);
  CHECK(answer.cached_tokens == 256);
  CHECK(world.node(NodeId{1}).metrics().kv_corrupt == 1);
  CHECK(ask_once(world, right).cached_tokens == 319);
}

TEST_CASE("when the node that kept the tail dies, the turn starts behind blocks") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(keeping({kFront, kPrefill, kDecode, kDecode}, seed));
    REQUIRE(world.run_until_whole());
    const testing::Wanted first = long_story(seed, 700);
    const testing::Wanted second = next_turn(first, ask_once(world, first), 60);
    world.kill(NodeId{2});
    world.kill(NodeId{3});
    const RequestId request = world.clients(NodeId{0}).ask(second);
    world.run_for(milliseconds(world.random()() % 3'000));
    world.restart(NodeId{2});
    REQUIRE(world.run_until_all_over(seconds(120)));
    const testing::Answer answer = world.clients(NodeId{0}).answer(request);
    check_true(world, answer, second);
    CHECK(is_quiet(world));
  }
}

TEST_CASE("an answer that a dead node cut off goes on from the tail of its prompt") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
      CAPTURE(seed);
      CAPTURE(static_cast<int>(mode));
      World world(keeping({kFront, kPrefill, kDecode}, seed));
      REQUIRE(world.run_until_whole());
      testing::Clients& clients = world.clients(NodeId{0});
      const testing::Wanted wanted = long_story(seed, 1000, mode, 80);
      const RequestId request = clients.ask(wanted);
      REQUIRE(world.run([&] { return clients.answer(request).tokens.size() > 40; }, seconds(60)));
      world.run_for(seconds(3));
      const testing::Answer before = clients.answer(request);
      const std::int64_t rows = prefill_rows(world);
      world.break_part(NodeId{2}, "decode_worker.0");
      REQUIRE(world.run_until_all_over(seconds(120)));
      const testing::Answer answer = clients.answer(request);
      check_true(world, answer, wanted);
      if (before.tokens.size() < 80) {
        CHECK(answer.attempts == 2);
        CHECK(prefill_rows(world) - rows < 100);  // of more than 1,040
      }
      CHECK(is_quiet(world));
    }
  }
}

TEST_CASE("whoever dies, every turn of every session is true and nothing is kept for ever") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(keeping({kFront, kPrefill, kPrefill, kDecode, kDecode}, seed, 5'000));
    REQUIRE(world.run_until_whole());
    testing::Clients& clients = world.clients(NodeId{0});
    std::vector<testing::Wanted> turns;
    for (std::uint64_t session = 0; session < 6; ++session) {
      turns.push_back(long_story(seed * 100 + session,
                                 static_cast<std::int64_t>(100 + world.random()() % 500),
                                 session % 2 == 0 ? BasisMode::kBounded : BasisMode::kExact,
                                 60));
    }
    std::int64_t cached = 0;
    for (int round = 0; round < 4; ++round) {
      std::vector<RequestId> asked;
      for (const testing::Wanted& turn : turns) {
        asked.push_back(clients.ask(turn));
      }
      world.run_for(milliseconds(world.random()() % 600));
      const NodeId victim{static_cast<std::uint32_t>(1 + world.random()() % 4)};
      world.kill(victim);
      world.run_for(milliseconds(world.random()() % 2'000));
      world.restart(victim);
      REQUIRE(world.run_until_all_over(seconds(300)));
      for (std::size_t session = 0; session < turns.size(); ++session) {
        const testing::Answer answer = clients.answer(asked[session]);
        check_true(world, answer, turns[session]);
        cached += answer.cached_tokens;
        turns[session] = next_turn(
            turns[session], answer, static_cast<std::int64_t>(1 + world.random()() % 200));
      }
    }
    CHECK(cached > 1000);
    CHECK(is_quiet(world));
  }
}
