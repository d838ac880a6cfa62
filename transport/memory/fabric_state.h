// What the endpoints of a memory fabric share: who is open, what is pending, what travels.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "transport/memory/memory_transport.h"
#include "transport/offers.h"
#include "transport/operations.h"

namespace shoal::transport {

using EndpointKey = std::pair<NodeId, IncarnationId>;

struct Outgoing {
  std::uint64_t operation = 0;
  std::uint8_t channel = 0;
  Buffer message;
  bool corrupt = false;
};

// What one endpoint sends to one peer.
struct Way {
  IncarnationId incarnation;
  std::uint64_t connection = 0;  // drawn anew by every cut: what travelled before is void
  Bytes in_flight{0};            // not acknowledged
  Bytes queued{0};
  std::deque<Outgoing> waiting;                             // for credit
  std::map<std::uint8_t, std::deque<Outgoing>> travelling;  // by channel, in order
  std::map<std::uint64_t, Bytes> dropped;  // never acknowledged: credit returns at the deadline
};

struct Endpoint {
  Endpoint(EndpointKey key_in, const TransportLimits& limits_in)
      : key(key_in),
        limits(limits_in),
        offers(limits_in) {}

  const EndpointKey key;
  const TransportLimits limits;
  Offers offers;
  std::mutex calling;  // one callback at a time, none after stop(); taken before the fabric's lock
  bool stopped = false;
  bool alive = true;
  std::optional<Instant> armed;  // when the next look at deadlines is due
  Operations operations;
  std::map<NodeId, Way> peers;
  std::map<std::uint8_t, std::shared_ptr<Transport::OnMessage>> handlers;
};

using EndpointRef = std::shared_ptr<Endpoint>;

// kPeerLost, with the node's name.
tl::unexpected<Error> lost_peer(NodeId node, const char* why);

class MemoryFabric::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(FabricParts parts) : parts_(std::move(parts)) {}

  EndpointRef open(EndpointKey key, const TransportLimits& limits);
  void set_alive(EndpointKey key, bool alive);

  void set_peer(const EndpointRef& self, const PeerAddress& peer);
  void forget_peer(const EndpointRef& self, NodeId node);
  void fetch(const EndpointRef& self, BufferKey key, Operations::Operation operation);
  void send(const EndpointRef& self, Outgoing message, Operations::Operation operation);
  void on_message(const EndpointRef& self, std::uint8_t channel, Transport::OnMessage handler);
  void stop(const EndpointRef& self);
  Transport::Use use(const EndpointRef& self) const;

 private:
  using Event = std::function<void(State&)>;
  using Arrived = std::function<void(State&, bool corrupt)>;

  // The two ends of a transfer and the connection that it belongs to.
  struct Trip {
    EndpointRef asker;
    EndpointKey target;
    std::uint64_t connection = 0;
    std::uint64_t operation = 0;
  };

  // With the lock held.
  void defer(Nanos delay, Event event);
  std::optional<Trip> admit(const EndpointRef& self, Operations::Operation operation);
  void arm(const EndpointRef& self);
  Verdict verdict(NodeId from, NodeId to, Bytes size) const;
  bool travel(EndpointKey from, EndpointKey to, Bytes size, Arrived arrived);
  Way* way_of(const Trip& trip) const;
  EndpointRef reachable(const Trip& trip) const;
  void transmit(const Trip& trip, Way& way, Outgoing message);
  void pump(const EndpointRef& self, NodeId peer, Way& way);
  void forget_send(const EndpointRef& self, NodeId peer, std::uint64_t operation);
  void cut(EndpointKey one, EndpointKey other);
  void lose(EndpointKey self, EndpointKey peer);
  void finish(const EndpointRef& self, std::uint64_t operation, Result<Buffer> result);

  // Without the lock, by the scheduler.
  void call(const EndpointRef& self, std::uint64_t operation, Result<Buffer> result);
  void expire(const EndpointRef& self);
  void serve(const Trip& trip, BufferKey key, bool corrupt);
  void receive(const Trip& trip, const Buffer& offered, std::uint32_t checksum, bool corrupt);
  void arrive(const Trip& trip, std::uint8_t channel);
  Result<Buffer> hand_over(const Trip& trip, const Outgoing& message);
  void acknowledged(const Trip& trip, Bytes size, Result<Buffer> outcome);

  const FabricParts parts_;
  mutable std::mutex mutex_;
  std::uint64_t connections_ = 0;
  std::map<EndpointKey, EndpointRef> endpoints_;
};

}  // namespace shoal::transport
