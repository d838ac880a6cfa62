// Every transfer asks the hook, travels for its delay and is looked at again where it arrives.
#include "transport/memory/fabric_state.h"

#include <algorithm>
#include <utility>

#include "schemas/check.h"
#include "transport/checksum.h"

namespace shoal::transport {
namespace {

std::string name_of(NodeId node) {
  return "node " + std::to_string(node.value);
}

tl::unexpected<Error> lost(NodeId node, const char* why) {
  return fail(Code::kPeerLost, name_of(node) + ": " + why);
}

// A copy as a wire would make it: with one bit turned if the transfer is corrupt.
Result<Buffer> carried(const Buffer& bytes, std::uint32_t checksum, bool corrupt, NodeId from) {
  auto copy = std::make_shared<std::vector<std::byte>>(*bytes);
  if (corrupt && !copy->empty()) {
    (*copy)[copy->size() / 2] ^= std::byte{1};
  } else if (corrupt) {
    checksum ^= 1;
  }
  if (crc32c(*copy) != checksum) {
    return fail(Code::kCorrupt, "bytes from " + name_of(from) + " differ from their checksum");
  }
  return copy;
}

}  // namespace

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
    finish(self, id, lost(peer, "not a known peer; set_peer comes first"));
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
    finish(found->second, id, lost(peer.first, "its connection is gone"));
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

// Fetches.

void MemoryFabric::State::fetch(const EndpointRef& self,
                                BufferKey key,
                                Operations::Operation operation) {
  std::unique_lock lock(mutex_);
  if (self->stopped) {
    lock.unlock();
    operation.done(fail(Code::kUnavailable, "the transport has stopped"));
    return;
  }
  if (const auto trip = admit(self, std::move(operation))) {
    travel(self->key, trip->target, Bytes{0}, [trip = *trip, key](State& state, bool corrupt) {
      state.serve(trip, key, corrupt);
    });
  }
}

void MemoryFabric::State::serve(const Trip& trip, BufferKey key, bool corrupt) {
  const std::lock_guard lock(mutex_);
  if (way_of(trip) == nullptr) {
    return;
  }
  const NodeId peer = trip.target.first;
  const EndpointRef server = reachable(trip);
  if (server == nullptr) {
    return finish(trip.asker, trip.operation, lost(peer, "it is gone or does not know this node"));
  }
  if (corrupt) {
    return finish(trip.asker, trip.operation, fail(Code::kCorrupt, "the request arrived corrupt"));
  }
  const Buffer offered = server->offers.find(key);
  if (offered == nullptr) {
    travel(trip.target, trip.asker->key, Bytes{0}, [trip, peer](State& state, bool) {
      state.call(trip.asker, trip.operation, lost(peer, "the buffer is not on offer"));
    });
    return;
  }
  travel(trip.target,
         trip.asker->key,
         size_of(offered),
         [trip, offered, checksum = crc32c(*offered)](State& state, bool corrupt_back) {
           state.receive(trip, offered, checksum, corrupt_back);
         });
}

void MemoryFabric::State::receive(const Trip& trip,
                                  const Buffer& offered,
                                  std::uint32_t checksum,
                                  bool corrupt) {
  {
    const std::lock_guard lock(mutex_);
    if (way_of(trip) == nullptr || !trip.asker->operations.contains(trip.operation)) {
      return;
    }
  }
  if (size_of(offered) > trip.asker->limits.buffer) {
    return call(trip.asker,
                trip.operation,
                fail(Code::kCorrupt, "the buffer is announced larger than one may be"));
  }
  call(trip.asker, trip.operation, carried(offered, checksum, corrupt, trip.target.first));
}

// Messages.

void MemoryFabric::State::send(const EndpointRef& self,
                               Outgoing message,
                               Operations::Operation operation) {
  std::unique_lock lock(mutex_);
  if (self->stopped) {
    lock.unlock();
    operation.done(fail(Code::kUnavailable, "the transport has stopped"));
    return;
  }
  const NodeId peer = operation.peer;
  const auto trip = admit(self, std::move(operation));
  if (!trip) {
    return;
  }
  const Bytes size = size_of(message.message);
  Way& way = self->peers.at(peer);
  message.operation = trip->operation;
  if (size > self->limits.message) {
    return finish(self, trip->operation, fail(Code::kNoCapacity, "the message is too large"));
  }
  way.waiting.push_back(std::move(message));
  way.queued = way.queued + size;
  pump(self, peer, way);
  if (way.queued > self->limits.queued_per_peer) {
    way.waiting.pop_back();
    way.queued = way.queued - size;
    finish(
        self,
        trip->operation,
        fail(Code::kNoCapacity, name_of(peer) + " has queued_per_peer bytes waiting for credit"));
  }
}

void MemoryFabric::State::pump(const EndpointRef& self, NodeId peer, Way& way) {
  while (!way.waiting.empty()) {
    const Bytes size = size_of(way.waiting.front().message);
    if (way.in_flight > Bytes{0} && way.in_flight + size > self->limits.credit_per_peer) {
      return;
    }
    Outgoing next = std::move(way.waiting.front());
    way.waiting.pop_front();
    way.queued = way.queued - size;
    const Trip trip{self, {peer, way.incarnation}, way.connection, next.operation};
    transmit(trip, way, std::move(next));
  }
}

// A message is kept in its channel's line and each event takes the first: the order holds whatever
// the delays are.
void MemoryFabric::State::transmit(const Trip& trip, Way& way, Outgoing message) {
  const Bytes size = size_of(message.message);
  way.in_flight = way.in_flight + size;
  const auto [delay, fate] = verdict(trip.asker->key.first, trip.target.first, size);
  if (fate == Fate::kDrop) {
    way.dropped.emplace(trip.operation, size);
    return;
  }
  if (fate == Fate::kReset) {
    return defer(delay, [trip](State& state) {
      const std::lock_guard lock(state.mutex_);
      state.cut(trip.asker->key, trip.target);
    });
  }
  const std::uint8_t channel = message.channel;
  message.corrupt = fate == Fate::kCorrupt;
  way.travelling[channel].push_back(std::move(message));
  defer(delay, [trip, channel](State& state) { state.arrive(trip, channel); });
}

void MemoryFabric::State::arrive(const Trip& trip, std::uint8_t channel) {
  Outgoing message;
  {
    const std::lock_guard lock(mutex_);
    Way* way = way_of(trip);
    if (way == nullptr) {
      return;
    }
    message = std::move(way->travelling[channel].front());
    way->travelling[channel].pop_front();
  }
  Trip back = trip;
  back.operation = message.operation;
  const Bytes size = size_of(message.message);
  Result<Buffer> outcome = hand_over(back, message);
  const std::lock_guard lock(mutex_);
  const bool comes =
      travel(trip.target, trip.asker->key, Bytes{0}, [back, size, outcome](State& state, bool) {
        state.acknowledged(back, size, outcome);
      });
  Way* way = way_of(back);
  if (!comes && way != nullptr) {
    way->dropped.emplace(back.operation, size);
    if (!back.asker->operations.contains(back.operation)) {
      forget_send(back.asker, back.target.first, back.operation);
    }
  }
}

// Null when the other side's channel has run.
Result<Buffer> MemoryFabric::State::hand_over(const Trip& trip, const Outgoing& message) {
  EndpointRef receiver;
  {
    const std::lock_guard lock(mutex_);
    receiver = reachable(trip);
  }
  if (receiver == nullptr) {
    return lost(trip.target.first, "it is gone or does not know this node");
  }
  const std::lock_guard calling(receiver->calling);
  std::shared_ptr<Transport::OnMessage> handler;
  {
    const std::lock_guard lock(mutex_);
    const auto found = receiver->handlers.find(message.channel);
    if (receiver->stopped || found == receiver->handlers.end()) {
      return lost(trip.target.first, "it has no handler of the channel");
    }
    handler = found->second;
  }
  TRY(Buffer bytes,
      carried(message.message, crc32c(*message.message), message.corrupt, trip.asker->key.first));
  (*handler)(trip.asker->key.first, std::move(bytes));
  return nullptr;
}

void MemoryFabric::State::acknowledged(const Trip& trip, Bytes size, Result<Buffer> outcome) {
  {
    const std::lock_guard lock(mutex_);
    Way* way = way_of(trip);
    if (way == nullptr) {
      return;
    }
    way->in_flight = way->in_flight - size;
    pump(trip.asker, trip.target.first, *way);
  }
  call(trip.asker, trip.operation, std::move(outcome));
}

// An operation that ended leaves the queue, and gives back what no acknowledgement will.
void MemoryFabric::State::forget_send(const EndpointRef& self,
                                      NodeId peer,
                                      std::uint64_t operation) {
  const auto known = self->peers.find(peer);
  if (known == self->peers.end()) {
    return;
  }
  Way& way = known->second;
  const auto waiting = std::ranges::find(way.waiting, operation, &Outgoing::operation);
  if (waiting != way.waiting.end()) {
    way.queued = way.queued - size_of(waiting->message);
    way.waiting.erase(waiting);
  }
  if (const auto dropped = way.dropped.extract(operation)) {
    way.in_flight = way.in_flight - dropped.mapped();
  }
  pump(self, peer, way);
}

}  // namespace shoal::transport
