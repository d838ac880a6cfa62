// Bulk bytes between processes: buffers that others fetch, and messages to a channel. Control never
// rides here, and nothing here knows what the bytes mean.
//
// Threads: every call from any thread; callbacks on the row's own thread (or executor), one at a
// time per transport, and they must not block. Every operation is called back exactly once, by its
// deadline at the latest, also when the transport stops: stop() returns after the last callback,
// and what is asked of a stopped transport is refused on the caller's thread. Errors: kPeerLost
// (the peer or its incarnation is gone or does not know this node, the buffer is not on offer, the
// channel has no handler), kDeadline, kCorrupt (a checksum or a size differs), kNoCapacity (a
// ceiling of this side), kUnavailable (the transport stopped). A peer that is dead, stopped or slow
// fails its own operations only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::transport {

using Buffer = std::shared_ptr<const std::vector<std::byte>>;

// Where an incarnation of a node listens. A row that needs no address ignores it.
struct PeerAddress {
  NodeId node;
  IncarnationId incarnation;
  std::string host;  // numeric
  std::uint16_t port = 0;
};

// Ceilings of one endpoint.
struct TransportLimits {
  Bytes offered{1LL << 30};           // of all buffers on offer; beyond: kNoCapacity
  Bytes buffer{1LL << 30};            // of one buffer; a larger announcement of a peer is kCorrupt
  Bytes message{16LL << 20};          // of one message
  Bytes queued_per_peer{64LL << 20};  // messages waiting for credit; beyond: kNoCapacity
  Bytes credit_per_peer{4LL << 20};   // messages on the way that the other side has not handled yet
  std::int64_t operations_per_peer = 4'096;
  Nanos idle{std::chrono::seconds(10)};  // a connection with work and no byte moving is lost
};

class Transport {
 public:
  using Fetched = std::function<void(Result<Buffer>)>;
  using Sent = std::function<void(Result<void>)>;  // handled by the other side's channel
  using OnMessage = std::function<void(NodeId from, Buffer message)>;

  virtual ~Transport() = default;

  // Where peers dial; 0 where the row needs no address.
  virtual std::uint16_t port() const = 0;

  // Makes a peer known, and its earlier incarnation lost. Connections are made when first needed.
  virtual void set_peer(const PeerAddress& peer) = 0;
  // Everything pending with the peer fails at once with kPeerLost.
  virtual void forget_peer(NodeId node) = 0;

  // Any known peer may fetch it until it is withdrawn. A fetch that runs keeps the bytes. A key
  // that is on offer already: kInvalid.
  virtual Result<void> offer(BufferKey key, Buffer bytes) = 0;
  virtual void withdraw(BufferKey key) = 0;
  // What this endpoint has on offer itself; null: nothing under that key.
  virtual Buffer offered(BufferKey key) const = 0;
  virtual void fetch(NodeId from, BufferKey key, Instant deadline, Fetched done) = 0;

  // In order per (peer, channel). One handler a channel, set before the first peer.
  virtual void on_message(std::uint8_t channel, OnMessage handler) = 0;
  virtual void send(
      NodeId to, std::uint8_t channel, Buffer message, Instant deadline, Sent done) = 0;

  // Fails what is pending, ends its thread. Idempotent; the destructor calls it. Not from a
  // callback.
  virtual void stop() = 0;

  struct Use {
    Bytes offered{0};
    std::int64_t offers = 0;
    std::int64_t operations = 0;  // fetches and sends pending
    Bytes queued{0};
  };

  virtual Use use() const = 0;
};

}  // namespace shoal::transport
