// Fetches and offers: what every row of the transport promises.
#include <chrono>
#include <doctest/doctest.h>

#include "tests/transport/two_nodes.h"

namespace {

using namespace shoal;
using namespace shoal::testing;

constexpr std::size_t kKiB = 1024;

}  // namespace

TEST_CASE_TEMPLATE("a fetch brings the offered bytes at every size", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes;
  const std::vector<std::size_t> sizes = {
      0, 1, 4 * kKiB, 256 * kKiB - 1, 256 * kKiB, 256 * kKiB + 1, 8192 * kKiB};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Buffer offered = bytes_of(sizes[i], i);
    REQUIRE(nodes.b->transport->offer(BufferKey{i}, offered).has_value());
    nodes.a->fetch(nodes.b->id, BufferKey{i});
    const auto fetched = nodes.a->fetched.wait(i + 1);
    REQUIRE(fetched.size() == i + 1);
    REQUIRE(fetched[i].has_value());
    CHECK((**fetched[i] == *offered));
    CHECK(*fetched[i] != offered);
  }
}

TEST_CASE_TEMPLATE("a node fetches from itself", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes;
  nodes.a->transport->set_peer(nodes.a->address());
  REQUIRE(nodes.a->transport->offer(BufferKey{1}, bytes_of(1000, 1)).has_value());
  nodes.a->fetch(nodes.a->id, BufferKey{1});
  CHECK(count_of_values(nodes.a->fetched.wait(1)) == 1);
}

TEST_CASE_TEMPLATE("what is not on offer, a peer not known and a node not known there are lost",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  const auto stranger = open_node(nodes.row, 3);
  stranger->transport->set_peer(nodes.b->address());
  REQUIRE(nodes.b->transport->offer(BufferKey{1}, bytes_of(10, 1)).has_value());
  nodes.a->fetch(nodes.b->id, BufferKey{2});
  nodes.a->fetch(NodeId{9}, BufferKey{1});
  stranger->fetch(nodes.b->id, BufferKey{1});
  CHECK(count_of(nodes.a->fetched.wait(2), Code::kPeerLost) == 2);
  CHECK(count_of(stranger->fetched.wait(1), Code::kPeerLost) == 1);
}

TEST_CASE_TEMPLATE("a buffer withdrawn while it is fetched comes whole or is lost",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  const Buffer offered = bytes_of(4096 * kKiB, 7);
  for (std::size_t i = 0; i < 10; ++i) {
    REQUIRE(nodes.b->transport->offer(BufferKey{i}, offered).has_value());
    nodes.a->fetch(nodes.b->id, BufferKey{i});
    nodes.b->transport->withdraw(BufferKey{i});
    CHECK(nodes.b->transport->use().offered == Bytes{0});
  }
  const auto fetched = nodes.a->fetched.wait(10);
  REQUIRE(fetched.size() == 10);
  CHECK(count_of_values(fetched) + count_of(fetched, Code::kPeerLost) == 10);
  for (const auto& result : fetched) {
    CHECK((!result || **result == *offered));
  }
}

TEST_CASE_TEMPLATE("offers keep their ceiling and their keys apart", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes({.offered = Bytes{3000}, .buffer = Bytes{2000}});
  Transport& b = *nodes.b->transport;
  CHECK(b.offer(BufferKey{1}, bytes_of(2000, 1)).has_value());
  CHECK(b.offer(BufferKey{1}, bytes_of(10, 1)).error().code == Code::kInvalid);
  CHECK(b.offer(BufferKey{2}, bytes_of(1001, 1)).error().code == Code::kNoCapacity);
  CHECK(b.offer(BufferKey{2}, bytes_of(1000, 1)).has_value());
  CHECK(b.use().offered == Bytes{3000});
  CHECK(b.use().offers == 2);
  b.withdraw(BufferKey{1});
  CHECK(b.use().offered == Bytes{1000});
  CHECK(b.offer(BufferKey{3}, bytes_of(2001, 1)).error().code == Code::kNoCapacity);
}

TEST_CASE_TEMPLATE("a buffer announced over the fetching side's ceiling is corrupt",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  const auto small = open_node(nodes.row, 3, {.buffer = Bytes{1000}});
  introduce(*small, *nodes.b);
  REQUIRE(nodes.b->transport->offer(BufferKey{1}, bytes_of(600 * kKiB, 1)).has_value());
  REQUIRE(nodes.b->transport->offer(BufferKey{2}, bytes_of(1000, 1)).has_value());
  small->fetch(nodes.b->id, BufferKey{1});
  CHECK(count_of(small->fetched.wait(1), Code::kCorrupt) == 1);
  small->fetch(nodes.b->id, BufferKey{2});
  CHECK(count_of_values(small->fetched.wait(2)) == 1);
}

TEST_CASE_TEMPLATE("an operation with a silent peer ends by its deadline", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes;
  const PeerAddress silent = nodes.row.silent_peer(NodeId{5});
  nodes.a->transport->set_peer(silent);
  const Instant soon = clock_now() + std::chrono::milliseconds(30);
  nodes.a->fetch(silent.node, BufferKey{1}, soon);
  nodes.a->send(silent.node, 0, bytes_of(10, 1), soon);
  nodes.a->send(silent.node, 0, bytes_of(10, 1), clock_now());
  CHECK(count_of(nodes.a->fetched.wait(1), Code::kDeadline) == 1);
  CHECK(clock_now() >= soon);
  CHECK(count_of(nodes.a->sent.wait(2), Code::kDeadline) == 2);
  CHECK(nodes.a->transport->use().operations == 0);
}

TEST_CASE_TEMPLATE("forgetting a peer fails everything pending with it at once",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  const PeerAddress silent = nodes.row.silent_peer(NodeId{5});
  nodes.a->transport->set_peer(silent);
  for (std::uint64_t i = 0; i < 20; ++i) {
    nodes.a->fetch(silent.node, BufferKey{i});
    nodes.a->send(silent.node, 0, bytes_of(10, i));
  }
  nodes.a->transport->forget_peer(silent.node);
  CHECK(count_of(nodes.a->fetched.wait(20), Code::kPeerLost) == 20);
  CHECK(count_of(nodes.a->sent.wait(20), Code::kPeerLost) == 20);
}

TEST_CASE_TEMPLATE("a new incarnation takes the place of the earlier one", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes;
  REQUIRE(nodes.a->transport->offer(BufferKey{1}, bytes_of(10, 1)).has_value());
  const PeerAddress silent = nodes.row.silent_peer(NodeId{5});
  nodes.a->transport->set_peer(silent);
  nodes.a->fetch(silent.node, BufferKey{1});
  nodes.b->fetch(nodes.a->id, BufferKey{1});
  CHECK(count_of_values(nodes.b->fetched.wait(1)) == 1);

  nodes.a->transport->set_peer({silent.node, IncarnationId{2}, silent.host, silent.port});
  CHECK(count_of(nodes.a->fetched.wait(1), Code::kPeerLost) == 1);

  // The old life of node 2 still runs, and is fenced.
  const auto reborn = open_node(nodes.row, 2, {}, 2);
  introduce(*nodes.a, *reborn);
  reborn->fetch(nodes.a->id, BufferKey{1});
  CHECK(count_of_values(reborn->fetched.wait(1)) == 1);
  nodes.b->fetch(nodes.a->id, BufferKey{1});
  CHECK(count_of(nodes.b->fetched.wait(2), Code::kPeerLost) == 1);
}

TEST_CASE_TEMPLATE("operations of a peer keep their ceiling", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes({.operations_per_peer = 8});
  const PeerAddress silent = nodes.row.silent_peer(NodeId{5});
  nodes.a->transport->set_peer(silent);
  for (std::uint64_t i = 0; i < 10; ++i) {
    nodes.a->fetch(silent.node, BufferKey{i});
  }
  CHECK(count_of(nodes.a->fetched.wait(2), Code::kNoCapacity) == 2);
  nodes.a->transport->forget_peer(silent.node);
  CHECK(count_of(nodes.a->fetched.wait(10), Code::kPeerLost) == 8);
}

TEST_CASE_TEMPLATE("stopping calls back everything once, and refuses what comes later",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  const PeerAddress silent = nodes.row.silent_peer(NodeId{5});
  nodes.a->transport->set_peer(silent);
  for (std::uint64_t i = 0; i < 50; ++i) {
    nodes.a->fetch(silent.node, BufferKey{i});
    nodes.a->send(silent.node, 3, bytes_of(10, i));
  }
  nodes.a->transport->stop();
  CHECK(nodes.a->fetched.size() == 50);
  CHECK(nodes.a->sent.size() == 50);
  nodes.a->fetch(silent.node, BufferKey{1});
  nodes.a->send(silent.node, 3, bytes_of(10, 1));
  nodes.a->transport->stop();
  CHECK(count_of(nodes.a->fetched.wait(51), Code::kUnavailable) == 51);
  CHECK(count_of(nodes.a->sent.wait(51), Code::kUnavailable) == 51);
  CHECK(nodes.a->fetched.size() == 51);
  CHECK(nodes.a->transport->use().operations == 0);
}

TEST_CASE_TEMPLATE("what waits for a peer that stops is lost at once", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes({.idle = kNeverIdle});
  Gate gate;
  nodes.b->transport->on_message(0, [&gate](NodeId, const Buffer&) { gate.pass(); });
  nodes.a->send(nodes.b->id, 0, bytes_of(10, 1));
  nodes.a->fetch(nodes.b->id, BufferKey{77});
  gate.open();
  nodes.b->transport->stop();
  CHECK(nodes.a->sent.wait(1).size() == 1);
  CHECK(count_of(nodes.a->fetched.wait(1), Code::kPeerLost) == 1);
}

TEST_CASE_TEMPLATE("dead and silent peers delay nobody else", Row, MemoryRow, TcpRow) {
  TwoNodes<Row> nodes({.idle = kNeverIdle});
  const PeerAddress silent = nodes.row.silent_peer(NodeId{5});
  const PeerAddress dead = nodes.row.dead_peer(NodeId{6});
  nodes.a->transport->set_peer(silent);
  nodes.a->transport->set_peer(dead);
  REQUIRE(nodes.b->transport->offer(BufferKey{1}, bytes_of(100 * kKiB, 1)).has_value());
  Inbox<Code> lost;
  Inbox<Result<Buffer>> from_silent;
  for (int i = 0; i < 100; ++i) {
    nodes.a->transport->fetch(silent.node, BufferKey{1}, later(), [&](Result<Buffer> bytes) {
      from_silent.put(std::move(bytes));
    });
    nodes.a->transport->fetch(dead.node, BufferKey{1}, later(), [&](Result<Buffer> bytes) {
      lost.put(bytes ? Code::kInternal : bytes.error().code);
    });
    nodes.a->fetch(nodes.b->id, BufferKey{1});
  }
  CHECK(count_of_values(nodes.a->fetched.wait(100)) == 100);
  CHECK(lost.wait(100) == std::vector<Code>(100, Code::kPeerLost));
  CHECK(from_silent.size() == 0);
  nodes.a->transport->stop();
  CHECK(from_silent.size() == 100);
}
