// What the fabric's hook and kills do, under a virtual clock.
#include <doctest/doctest.h>
#include <functional>

#include "tests/transport/step_scheduler.h"
#include "tests/transport/two_nodes.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using transport::Fate;
using transport::MemoryFabric;
using transport::Verdict;

constexpr Nanos kLimit(1'000'000);

// Two endpoints, and a hook that the test sets.
struct World {
  StepScheduler scheduler;
  std::function<Verdict(NodeId from, NodeId to, Bytes size)> hook;
  MemoryFabric fabric{{scheduler.port(), [this](NodeId from, NodeId to, Bytes size) {
                         return hook ? hook(from, to, size) : Verdict{};
                       }}};
  TestNode a;
  TestNode b;

  World() {
    open(a, 1);
    open(b, 2);
    introduce(a, b);
    b.receive(0);
    REQUIRE(b.transport->offer(BufferKey{1}, bytes_of(1000, 1)).has_value());
  }

  void open(TestNode& node, std::uint32_t id) {
    node.id = NodeId{id};
    node.incarnation = IncarnationId{1};
    node.transport = fabric.open(node.id, node.incarnation);
  }

  Result<Buffer> fetch() {
    const std::size_t before = a.fetched.size();
    a.fetch(b.id, BufferKey{1}, scheduler.now() + kLimit);
    scheduler.run_all();
    REQUIRE(a.fetched.size() == before + 1);
    return a.fetched.wait(before + 1).back();
  }

  Result<void> send(Bytes size = Bytes{100}) {
    const std::size_t before = a.sent.size();
    a.send(b.id, 0, bytes_of(static_cast<std::size_t>(size.value), 1), scheduler.now() + kLimit);
    scheduler.run_all();
    REQUIRE(a.sent.size() == before + 1);
    return a.sent.wait(before + 1).back();
  }
};

}  // namespace

TEST_CASE("nothing happens inside a call, all of it by the scheduler") {
  World world;
  world.a.fetch(world.b.id, BufferKey{1}, world.scheduler.now() + kLimit);
  world.a.send(world.b.id, 0, bytes_of(10, 1), world.scheduler.now() + kLimit);
  world.a.fetch(NodeId{9}, BufferKey{1}, world.scheduler.now() + kLimit);
  CHECK(world.a.fetched.size() + world.a.sent.size() + world.b.received.size() == 0);
  world.scheduler.run_all();
  CHECK(world.a.fetched.size() == 2);
  CHECK(world.a.sent.size() == 1);
  CHECK(world.b.received.size() == 1);
}

TEST_CASE("a transfer takes the hook's delay in each direction and shows its size") {
  World world;
  std::vector<std::int64_t> sizes;
  world.hook = [&](NodeId, NodeId, Bytes size) {
    sizes.push_back(size.value);
    return Verdict{Nanos(size.value + 7)};
  };
  Instant done{};
  world.a.transport->fetch(
      world.b.id, BufferKey{1}, world.scheduler.now() + kLimit, [&](const Result<Buffer>&) {
        done = world.scheduler.now();
      });
  world.scheduler.run_all();
  CHECK(sizes == std::vector<std::int64_t>{0, 1000});
  CHECK(done == Instant{} + Nanos(7 + 1007));
}

TEST_CASE("what is dropped ends by its deadline and leaves no credit behind") {
  World world;
  for (const std::int64_t lost_size : {0, 1000, 4'000'000}) {
    world.hook = [lost_size](NodeId, NodeId, Bytes size) {
      return Verdict{{}, size.value == lost_size ? Fate::kDrop : Fate::kDeliver};
    };
    // Each would use up the credit of 4 MiB, were it not given back.
    for (int i = 0; i < 3 && lost_size != 1000; ++i) {
      CHECK(world.send(Bytes{4'000'000}).error().code == Code::kDeadline);
    }
    if (lost_size != 4'000'000) {
      const Instant begin = world.scheduler.now();
      CHECK(world.fetch().error().code == Code::kDeadline);
      CHECK(world.scheduler.now() == begin + kLimit);
    }
  }
  world.hook = nullptr;
  CHECK(world.send().has_value());
  CHECK(world.fetch().has_value());
}

TEST_CASE("what is corrupt is found") {
  World world;
  for (const std::int64_t corrupt_size : {1000, 100}) {
    world.hook = [corrupt_size](NodeId, NodeId, Bytes size) {
      return Verdict{{}, size.value == corrupt_size ? Fate::kCorrupt : Fate::kDeliver};
    };
    CHECK(world.fetch().has_value() == (corrupt_size != 1000));
    CHECK(world.send().has_value() == (corrupt_size != 100));
  }
  CHECK(count_of(world.a.fetched.wait(2), Code::kCorrupt) == 1);
  CHECK(count_of(world.a.sent.wait(2), Code::kCorrupt) == 1);
  CHECK(world.b.received.size() == 1);
}

TEST_CASE("a reset loses what both ends have pending, and nothing later") {
  World world;
  REQUIRE(world.a.transport->offer(BufferKey{1}, bytes_of(10, 1)).has_value());
  int transfers = 0;
  world.hook = [&transfers](NodeId, NodeId, Bytes) {
    return Verdict{Nanos(10), ++transfers == 3 ? Fate::kReset : Fate::kDeliver};
  };
  const Instant deadline = world.scheduler.now() + kLimit;
  world.a.fetch(world.b.id, BufferKey{1}, deadline);
  world.b.fetch(world.a.id, BufferKey{1}, deadline);
  world.a.send(world.b.id, 0, bytes_of(10, 1), deadline);
  world.scheduler.run_all();
  CHECK(count_of(world.a.fetched.wait(1), Code::kPeerLost) == 1);
  CHECK(count_of(world.b.fetched.wait(1), Code::kPeerLost) == 1);
  CHECK(count_of(world.a.sent.wait(1), Code::kPeerLost) == 1);
  CHECK(world.fetch().has_value());
  CHECK(world.send().has_value());
}

TEST_CASE("a killed node is lost to others at once, and others to it") {
  World world;
  world.hook = [](NodeId, NodeId, Bytes) { return Verdict{Nanos(100)}; };
  const Instant begin = world.scheduler.now();
  REQUIRE(world.a.transport->offer(BufferKey{1}, bytes_of(10, 1)).has_value());
  world.a.fetch(world.b.id, BufferKey{1}, begin + kLimit);
  world.b.fetch(world.a.id, BufferKey{1}, begin + kLimit);
  world.fabric.set_alive(world.b.id, world.b.incarnation, false);
  world.scheduler.run_all();
  CHECK(count_of(world.a.fetched.wait(1), Code::kPeerLost) == 1);
  CHECK(count_of(world.b.fetched.wait(1), Code::kPeerLost) == 1);
  CHECK(world.fetch().error().code == Code::kPeerLost);
  CHECK(world.send().error().code == Code::kPeerLost);
  world.fabric.set_alive(world.b.id, world.b.incarnation, true);
  CHECK(world.fetch().has_value());
}

TEST_CASE("messages of a channel keep their order under any delays") {
  World world;
  MESSAGE("seed 21");
  std::mt19937_64 random(21);
  world.hook = [&random](NodeId, NodeId, Bytes) {
    return Verdict{Nanos(static_cast<std::int64_t>(random() % 1000))};
  };
  for (std::size_t i = 0; i < 100; ++i) {
    world.a.send(world.b.id, 0, bytes_of(i, 1), world.scheduler.now() + kLimit);
  }
  world.scheduler.run_all();
  const auto received = world.b.received.wait(100);
  REQUIRE(received.size() == 100);
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(received[i]->size() == i);
  }
}
