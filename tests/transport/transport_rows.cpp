// Opens endpoints of each row for the conformance suite.
#include "tests/transport/transport_rows.h"

#include <doctest/doctest.h>

#include "tests/transport/raw_socket.h"
#include "transport/registry.h"

namespace shoal::testing {

PeerAddress address_of(NodeId node, IncarnationId incarnation, std::uint16_t port) {
  return {node, incarnation, "127.0.0.1", port};
}

std::unique_ptr<Transport> MemoryRow::open(NodeId node,
                                           IncarnationId incarnation,
                                           const TransportLimits& limits) {
  return fabric_.open(node, incarnation, limits);
}

// Calls begin before they return.
void MemoryRow::wait_until_begun(Transport& endpoint) {
  static_cast<void>(endpoint);
}

PeerAddress MemoryRow::silent_peer(NodeId node) {
  const std::lock_guard lock(mutex_);
  silent_.insert(node);
  return address_of(node, IncarnationId{1}, 0);
}

PeerAddress MemoryRow::dead_peer(NodeId node) {
  return address_of(node, IncarnationId{1}, 0);
}

TcpRow::TcpRow() = default;

TcpRow::~TcpRow() = default;

std::unique_ptr<Transport> TcpRow::open(NodeId node,
                                        IncarnationId incarnation,
                                        const TransportLimits& limits) {
  auto opened = transport::open_transport(
      "tcp", {node, incarnation, "conformance", "127.0.0.1", 0, limits, clock_now});
  REQUIRE(opened.has_value());
  return *std::move(opened);
}

// Calls begin in order on the endpoint's thread: an answer to the last tells that all have.
void TcpRow::wait_until_begun(Transport& endpoint) {
  Inbox<bool> answered;
  endpoint.fetch(NodeId{999}, BufferKey{1}, later(), [&answered](const Result<Buffer>& bytes) {
    answered.put(bytes.has_value());
  });
  CHECK(answered.wait(1).size() == 1);
}

PeerAddress TcpRow::silent_peer(NodeId node) {
  listeners_.push_back(std::make_unique<RawListener>());
  return address_of(node, IncarnationId{1}, listeners_.back()->port());
}

PeerAddress TcpRow::dead_peer(NodeId node) {
  const RawListener closed_again;
  return address_of(node, IncarnationId{1}, closed_again.port());
}

}  // namespace shoal::testing
