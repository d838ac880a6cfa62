// The rows that the conformance suite runs over, each with peers that misbehave by silence.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/transport/waits.h"
#include "transport/memory/memory_transport.h"
#include "transport/thread_scheduler.h"
#include "transport/transport.h"

namespace shoal::testing {

using transport::Buffer;
using transport::PeerAddress;
using transport::Transport;
using transport::TransportLimits;

// Where an endpoint with this port is.
PeerAddress address_of(NodeId node, IncarnationId incarnation, std::uint16_t port);

class MemoryRow {
 public:
  std::unique_ptr<Transport> open(NodeId node,
                                  IncarnationId incarnation,
                                  const TransportLimits& limits);
  // Returns when all that was asked of the endpoint before has begun or was refused.
  void wait_until_begun(Transport& endpoint);
  // A peer that takes what it is sent and never answers.
  PeerAddress silent_peer(NodeId node);
  // A peer whose process is gone.
  PeerAddress dead_peer(NodeId node);

 private:
  std::mutex mutex_;
  std::set<NodeId> silent_;
  transport::ThreadScheduler scheduler_{clock_now};
  transport::MemoryFabric fabric_{{scheduler_.port(), [this](NodeId, NodeId to, Bytes) {
                                     const std::lock_guard lock(mutex_);
                                     return silent_.contains(to)
                                                ? transport::Verdict{{}, transport::Fate::kDrop}
                                                : transport::Verdict{};
                                   }}};
};

class TcpRow {
 public:
  TcpRow();
  ~TcpRow();

  std::unique_ptr<Transport> open(NodeId node,
                                  IncarnationId incarnation,
                                  const TransportLimits& limits);
  void wait_until_begun(Transport& endpoint);
  PeerAddress silent_peer(NodeId node);
  PeerAddress dead_peer(NodeId node);

 private:
  std::vector<std::unique_ptr<class RawListener>> listeners_;
};

}  // namespace shoal::testing
