// Messages to channels: what every row of the transport promises.
#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <numeric>

#include "tests/transport/two_nodes.h"

namespace {

using namespace shoal;
using namespace shoal::testing;

// A message that carries its number.
Buffer numbered(std::uint64_t number, std::size_t size) {
  auto bytes = std::make_shared<std::vector<std::byte>>(std::max(size, sizeof(number)));
  std::memcpy(bytes->data(), &number, sizeof(number));
  return bytes;
}

std::uint64_t number_of(const Buffer& message) {
  std::uint64_t number = 0;
  std::memcpy(&number, message->data(), sizeof(number));
  return number;
}

}  // namespace

TEST_CASE_TEMPLATE("messages of a channel come in order, and are done when they were handled",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  std::map<std::uint8_t, std::vector<std::uint64_t>> seen;
  for (const std::uint8_t channel : {0, 7, 255}) {
    nodes.b->transport->on_message(channel, [&seen, channel](NodeId from, const Buffer& message) {
      CHECK(from == NodeId{1});
      seen[channel].push_back(number_of(message));
    });
  }
  MESSAGE("seed 5");
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t i = 0; i < 200; ++i) {
    wanted.push_back(i);
    for (const std::uint8_t channel : {0, 7, 255}) {
      const std::size_t size = i % 50 == 0 ? 700'000 : random() % 3000;
      nodes.a->send(nodes.b->id, channel, numbered(i, size));
    }
  }
  CHECK(count_of_values(nodes.a->sent.wait(600)) == 600);
  nodes.b->transport->stop();
  CHECK(seen[0] == wanted);
  CHECK(seen[7] == wanted);
  CHECK(seen[255] == wanted);
}

TEST_CASE_TEMPLATE("an empty message and the largest one arrive, one byte more is refused",
                   Row,
                   MemoryRow,
                   TcpRow) {
  // Larger than the credit: it goes alone.
  TwoNodes<Row> nodes({.message = Bytes{900'000}, .credit_per_peer = Bytes{1000}});
  nodes.b->receive(1);
  nodes.a->send(nodes.b->id, 1, bytes_of(0, 1));
  nodes.a->send(nodes.b->id, 1, bytes_of(900'000, 2));
  nodes.a->send(nodes.b->id, 1, bytes_of(900'000, 3));
  nodes.a->send(nodes.b->id, 1, bytes_of(900'001, 4));
  const auto sent = nodes.a->sent.wait(4);
  CHECK(count_of_values(sent) == 3);
  CHECK(count_of(sent, Code::kNoCapacity) == 1);
  const auto received = nodes.b->received.wait(3);
  REQUIRE(received.size() == 3);
  CHECK(received[0]->empty());
  CHECK((*received[1] == *bytes_of(900'000, 2)));
  CHECK((*received[2] == *bytes_of(900'000, 3)));
}

TEST_CASE_TEMPLATE("a channel without a handler loses its messages, not the others'",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes;
  nodes.b->receive(1);
  nodes.a->send(nodes.b->id, 2, bytes_of(10, 1));
  nodes.a->send(nodes.b->id, 1, bytes_of(10, 1));
  const auto sent = nodes.a->sent.wait(2);
  CHECK(count_of(sent, Code::kPeerLost) == 1);
  CHECK(count_of_values(sent) == 1);
}

TEST_CASE_TEMPLATE("a held handler stops the sender at credit and queue, and nothing is lost",
                   Row,
                   MemoryRow,
                   TcpRow) {
  TwoNodes<Row> nodes({.queued_per_peer = Bytes{20'000}, .credit_per_peer = Bytes{10'000}});
  Gate gate;
  Inbox<std::uint64_t> handled;
  nodes.b->transport->on_message(4, [&](NodeId, const Buffer& message) {
    gate.pass();
    handled.put(number_of(message));
  });
  for (std::uint64_t i = 0; i < 50; ++i) {
    nodes.a->send(nodes.b->id, 4, numbered(i, 1000));
  }
  nodes.row.wait_until_begun(*nodes.a->transport);
  CHECK(handled.size() == 0);
  gate.open();
  const auto sent = nodes.a->sent.wait(50);
  CHECK(handled.wait(count_of_values(sent)).size() == count_of_values(sent));
  CHECK(count_of_values(sent) == 30);
  CHECK(count_of(sent, Code::kNoCapacity) == 20);
  std::vector<std::uint64_t> first(30);
  std::iota(first.begin(), first.end(), 0);
  CHECK(handled.wait(30) == first);
}

TEST_CASE_TEMPLATE("any mix of operations is called back once each, with the right bytes",
                   Row,
                   MemoryRow,
                   TcpRow) {
  for (const std::uint64_t seed : {11, 12, 13, 14}) {
    CAPTURE(seed);
    MESSAGE("seed " << seed);
    std::mt19937_64 random(seed);
    TwoNodes<Row> nodes({.message = Bytes{100'000},
                         .queued_per_peer = Bytes{300'000},
                         .credit_per_peer = Bytes{50'000}});
    TestNode* const both[] = {nodes.a.get(), nodes.b.get()};
    Inbox<std::size_t> called;
    std::map<std::uint8_t, std::vector<std::uint64_t>> seen[2];
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::uint8_t channel = 0; channel < 3; ++channel) {
        both[i]->transport->on_message(channel, [&, i, channel](NodeId, const Buffer& message) {
          seen[i][channel].push_back(number_of(message));
        });
      }
      for (std::uint64_t key = 0; key < 10; ++key) {
        REQUIRE(both[i]->transport->offer(BufferKey{key}, bytes_of(key * 50'000, key)).has_value());
      }
    }
    for (std::size_t i = 0; i < 200; ++i) {
      TestNode& self = *both[random() % 2];
      TestNode& peer = &self == both[0] ? *both[1] : *both[0];
      const Instant deadline =
          random() % 10 == 0 ? clock_now() + std::chrono::microseconds(random() % 2000) : later();
      const std::uint64_t kind = random() % 20;
      if (kind < 10) {
        const std::uint64_t key = random() % 12;
        self.transport->fetch(
            peer.id, BufferKey{key}, deadline, [&called, i, key](Result<Buffer> bytes) {
              CHECK((!bytes || **bytes == *bytes_of(key * 50'000, key)));
              called.put(i);
            });
        continue;
      }
      if (kind == 10) {
        self.transport->forget_peer(peer.id);
        self.transport->set_peer(peer.address());
      }
      self.transport->send(peer.id,
                           static_cast<std::uint8_t>(random() % 3),
                           numbered(i, random() % 120'000),
                           deadline,
                           [&called, i](const Result<void>&) { called.put(i); });
    }
    auto calls = called.wait(200);
    nodes.a->transport->stop();
    nodes.b->transport->stop();
    calls = called.wait(200);
    std::ranges::sort(calls);
    std::vector<std::size_t> each(200);
    std::iota(each.begin(), each.end(), 0);
    CHECK(calls == each);
    for (const auto& channels : seen) {
      for (const auto& [channel, numbers] : channels) {
        CHECK(std::ranges::is_sorted(numbers));
      }
    }
  }
}
