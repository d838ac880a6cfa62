// Nodes of one row that know each other, and what their operations bring.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "tests/transport/transport_rows.h"

namespace shoal::testing {

// For tests of what must not take until a connection counts as idle.
inline constexpr std::chrono::hours kNeverIdle(1);

inline Buffer bytes_of(std::size_t size, std::uint64_t seed) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  std::mt19937_64 random(seed);
  for (std::byte& byte : *bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

// One node: its transport and the answers to what the test asked of it.
struct TestNode {
  NodeId id;
  IncarnationId incarnation;
  Inbox<Result<Buffer>> fetched;
  Inbox<Result<void>> sent;
  Inbox<Buffer> received;
  std::unique_ptr<Transport> transport;  // ends first: its callbacks use what is above

  PeerAddress address() const { return address_of(id, incarnation, transport->port()); }

  void fetch(NodeId from, BufferKey key, Instant deadline = later()) {
    transport->fetch(
        from, key, deadline, [this](Result<Buffer> bytes) { fetched.put(std::move(bytes)); });
  }

  void send(NodeId to, std::uint8_t channel, Buffer message, Instant deadline = later()) {
    transport->send(to, channel, std::move(message), deadline, [this](Result<void> result) {
      sent.put(std::move(result));
    });
  }

  void receive(std::uint8_t channel) {
    transport->on_message(channel,
                          [this](NodeId, Buffer message) { received.put(std::move(message)); });
  }
};

template <class Row>
std::unique_ptr<TestNode> open_node(Row& row,
                                    std::uint32_t id,
                                    const TransportLimits& limits = {},
                                    std::uint64_t incarnation = 1) {
  auto node = std::make_unique<TestNode>();
  node->id = NodeId{id};
  node->incarnation = IncarnationId{incarnation};
  node->transport = row.open(node->id, node->incarnation, limits);
  return node;
}

inline void introduce(const TestNode& one, const TestNode& other) {
  one.transport->set_peer(other.address());
  other.transport->set_peer(one.address());
}

// Nodes 1 and 2.
template <class Row>
struct TwoNodes {
  explicit TwoNodes(const TransportLimits& limits = {})
      : a(open_node(row, 1, limits)),
        b(open_node(row, 2, limits)) {
    introduce(*a, *b);
  }

  Row row;
  std::unique_ptr<TestNode> a;
  std::unique_ptr<TestNode> b;
};

template <class T>
std::size_t count_of(const std::vector<Result<T>>& results, Code code) {
  std::size_t count = 0;
  for (const auto& result : results) {
    count += !result && result.error().code == code;
  }
  return count;
}

template <class T>
std::size_t count_of_values(const std::vector<Result<T>>& results) {
  std::size_t count = 0;
  for (const auto& result : results) {
    count += result.has_value();
  }
  return count;
}

}  // namespace shoal::testing
