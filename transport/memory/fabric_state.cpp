// Who is open, which operations wait, which connections hold, and how long a transfer travels.
#include "transport/memory/fabric_state.h"

#include <algorithm>
#include <utility>

#include "schemas/check.h"

namespace shoal::transport {
namespace {

std::string name_of(NodeId node) {
  return "node " + std::to_string(node.value);
}

}  // namespace

tl::unexpected<Error> lost_peer(NodeId node, const char* why) {
  return fail(Code::kPeerLost, name_of(node) + ": " + why);
}

EndpointRef MemoryFabric::State::open(EndpointKey key, const TransportLimits& limits) {
  auto endpoint = std::make_shared<Endpoint>(key, limits);
  const std::lock_guard lock(mutex_);
  const bool is_new = endpoints_.emplace(key, endpoint).second;
  CHECK(is_new);
  return endpoint;
}

void MemoryFabric::State::set_alive(EndpointKey key, bool alive) {
  const std::lock_guard lock(mutex_);
  const auto found = endpoints_.find(key);
  if (found == endpoints_.end()) {
    return;
  }
  found->second->alive = alive;
  for (const auto& [other, endpoint] : endpoints_) {
    if (!alive) {
      cut(key, other);
    }
  }
}

void MemoryFabric::State::set_peer(const EndpointRef& self, const PeerAddress& peer) {
  const std::lock_guard lock(mutex_);
  const auto known = self->peers.find(peer.node);
  if (known != self->peers.end()) {
    if (known->second.incarnation == peer.incarnation) {
      return;
    }
    cut(self->key, {peer.node, known->second.incarnation});
  }
  Way way;
  way.incarnation = peer.incarnation;
  way.connection = ++connections_;
  self->peers.insert_or_assign(peer.node, std::move(way));
}

void MemoryFabric::State::forget_peer(const EndpointRef& self, NodeId node) {
  const std::lock_guard lock(mutex_);
  const auto known = self->peers.find(node);
  if (known != self->peers.end()) {
    cut(self->key, {node, known->second.incarnation});
    self->peers.erase(node);
  }
}

void MemoryFabric::State::on_message(const EndpointRef& self,
                                     std::uint8_t channel,
                                     Transport::OnMessage handler) {
  const std::lock_guard lock(mutex_);
  self->handlers[channel] = std::make_shared<Transport::OnMessage>(std::move(handler));
}

Transport::Use MemoryFabric::State::use(const EndpointRef& self) const {
  Transport::Use use;
  self->offers.count(use);
  const std::lock_guard lock(mutex_);
  use.operations = self->operations.size();
  for (const auto& [node, way] : self->peers) {
    use.queued = use.queued + way.queued;
  }
  return use;
}

void MemoryFabric::State::stop(const EndpointRef& self) {
  const std::lock_guard calling(self->calling);
  std::vector<Operations::Operation> left;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(self->stopped, true)) {
      return;
    }
    for (const std::uint64_t id : self->operations.all()) {
      left.push_back(*self->operations.take(id));
    }
    for (const auto& [other, endpoint] : endpoints_) {
      cut(self->key, other);
    }
    self->peers.clear();
    endpoints_.erase(self->key);
  }
  for (const Operations::Operation& operation : left) {
    operation.done(fail(Code::kUnavailable, "the transport stopped; nothing was waited for"));
  }
}

// Operations: admitted, refused, called back.

std::optional<MemoryFabric::State::Trip> MemoryFabric::State::admit(
    const EndpointRef& self, Operations::Operation operation) {
  const NodeId peer = operation.peer;
  const bool fits = self->operations.with_peer(peer) < self->limits.operations_per_peer;
  const std::uint64_t id = self->operations.add(std::move(operation));
  const auto known = self->peers.find(peer);
  if (known == self->peers.end()) {
    finish(self, id, lost_peer(peer, "not a known peer; set_peer comes first"));
    return std::nullopt;
  }
  if (!fits) {
    finish(self, id, fail(Code::kNoCapacity, name_of(peer) + " has operations_per_peer pending"));
    return std::nullopt;
  }
  arm(self);
  return Trip{self, {peer, known->second.incarnation}, known->second.connection, id};
}

void MemoryFabric::State::arm(const EndpointRef& self) {
  const auto next = self->operations.next_deadline();
  if (next && (!self->armed || *next < *self->armed)) {
    self->armed = next;
    defer(std::max(Nanos(0), *next - parts_.scheduler.now()),
          [self](State& state) { state.expire(self); });
  }
}

void MemoryFabric::State::expire(const EndpointRef& self) {
  const std::lock_guard calling(self->calling);
  const Instant now = parts_.scheduler.now();
  while (true) {
    std::optional<Operations::Operation> expired;
    {
      const std::lock_guard lock(mutex_);
      const auto id = self->operations.first_due(now);
      if (!id) {
        if (self->armed && *self->armed <= now) {
          self->armed.reset();
        }
        arm(self);
        return;
      }
      expired = self->operations.take(*id);
      forget_send(self, expired->peer, *id);
    }
    expired->done(
        fail(Code::kDeadline, name_of(expired->peer) + " did not answer by the deadline"));
  }
}

void MemoryFabric::State::finish(const EndpointRef& self,
                                 std::uint64_t operation,
                                 Result<Buffer> result) {
  defer(Nanos(0), [self, operation, result = std::move(result)](State& state) {
    state.call(self, operation, result);
  });
}

void MemoryFabric::State::call(const EndpointRef& self,
                               std::uint64_t operation,
                               Result<Buffer> result) {
  const std::lock_guard calling(self->calling);
  std::optional<Operations::Operation> taken;
  {
    const std::lock_guard lock(mutex_);
    taken = self->operations.take(operation);
  }
  if (taken) {
    taken->done(std::move(result));
  }
}

// Connections and transfers.

void MemoryFabric::State::defer(Nanos delay, Event event) {
  parts_.scheduler.defer(delay, [weak = weak_from_this(), event = std::move(event)] {
    if (const auto state = weak.lock()) {
      event(*state);
    }
  });
}

Verdict MemoryFabric::State::verdict(NodeId from, NodeId to, Bytes size) const {
  return parts_.verdict ? parts_.verdict(from, to, size) : Verdict{};
}

// False: it will not arrive.
bool MemoryFabric::State::travel(EndpointKey from, EndpointKey to, Bytes size, Arrived arrived) {
  const auto [delay, fate] = verdict(from.first, to.first, size);
  if (fate == Fate::kReset) {
    defer(delay, [from, to](State& state) {
      const std::lock_guard lock(state.mutex_);
      state.cut(from, to);
    });
    return true;  // the cut ends the operation
  }
  if (fate == Fate::kDrop) {
    return false;
  }
  defer(delay, [arrived = std::move(arrived), fate](State& state) {
    arrived(state, fate == Fate::kCorrupt);
  });
  return true;
}

void MemoryFabric::State::cut(EndpointKey one, EndpointKey other) {
  lose(one, other);
  if (one != other) {
    lose(other, one);
  }
}

void MemoryFabric::State::lose(EndpointKey self, EndpointKey peer) {
  const auto found = endpoints_.find(self);
  if (found == endpoints_.end()) {
    return;
  }
  const auto known = found->second->peers.find(peer.first);
  if (known == found->second->peers.end() || known->second.incarnation != peer.second) {
    return;
  }
  known->second = Way{};
  known->second.incarnation = peer.second;
  known->second.connection = ++connections_;
  for (const std::uint64_t id : found->second->operations.all_with_peer(peer.first)) {
    finish(found->second, id, lost_peer(peer.first, "its connection is gone"));
  }
}

// Null: the connection of the trip was cut.
Way* MemoryFabric::State::way_of(const Trip& trip) const {
  const auto known = trip.asker->peers.find(trip.target.first);
  if (known == trip.asker->peers.end() || known->second.connection != trip.connection) {
    return nullptr;
  }
  return &known->second;
}

// Null: nobody is there who knows the asker.
EndpointRef MemoryFabric::State::reachable(const Trip& trip) const {
  const auto found = endpoints_.find(trip.target);
  if (found == endpoints_.end() || !found->second->alive || !trip.asker->alive) {
    return nullptr;
  }
  const auto known = found->second->peers.find(trip.asker->key.first);
  if (known == found->second->peers.end() || known->second.incarnation != trip.asker->key.second) {
    return nullptr;
  }
  return found->second;
}

}  // namespace shoal::transport
