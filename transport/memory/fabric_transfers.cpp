// Fetches and messages: each transfer asks the hook and is looked at again where it arrives.
#include <algorithm>
#include <utility>

#include "schemas/checksum.h"
#include "transport/memory/fabric_state.h"

namespace shoal::transport {
namespace {

// A copy as a wire would make it: with one bit turned if the transfer is corrupt.
Result<Buffer> carried(const Buffer& bytes, std::uint32_t checksum, bool corrupt, NodeId from) {
  auto copy = std::make_shared<std::vector<std::byte>>(*bytes);
  if (corrupt && !copy->empty()) {
    (*copy)[copy->size() / 2] ^= std::byte{1};
  } else if (corrupt) {
    checksum ^= 1;
  }
  if (crc32c(*copy) != checksum) {
    return fail(Code::kCorrupt,
                "bytes from node " + std::to_string(from.value) + " differ from their checksum");
  }
  return copy;
}

}  // namespace

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
    return finish(
        trip.asker, trip.operation, lost_peer(peer, "it is gone or does not know this node"));
  }
  if (corrupt) {
    return finish(trip.asker, trip.operation, fail(Code::kCorrupt, "the request arrived corrupt"));
  }
  const Buffer offered = server->offers.find(key);
  if (offered == nullptr) {
    travel(trip.target, trip.asker->key, Bytes{0}, [trip, peer](State& state, bool) {
      state.call(trip.asker, trip.operation, lost_peer(peer, "the buffer is not on offer"));
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
    finish(self,
           trip->operation,
           fail(Code::kNoCapacity,
                "node " + std::to_string(peer.value) +
                    " has queued_per_peer bytes waiting for credit"));
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
    return lost_peer(trip.target.first, "it is gone or does not know this node");
  }
  const std::lock_guard calling(receiver->calling);
  std::shared_ptr<Transport::OnMessage> handler;
  {
    const std::lock_guard lock(mutex_);
    const auto found = receiver->handlers.find(message.channel);
    if (receiver->stopped || found == receiver->handlers.end()) {
      return lost_peer(trip.target.first, "it has no handler of the channel");
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
