// A connection between two nodes, as a port: whole messages of bytes, in order, until it is lost.
//
// Threads: calls from any thread; events on any thread, one at a time per link, none before start()
// and none after `lost`. A link never fails silently on this side: either bytes arrive in order, or
// `lost` comes. It may fail silently on the way (a stopped peer, a black hole): whoever uses it
// pings.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal {

struct LinkEvents {
  std::function<void(std::string bytes)> received;
  std::function<void(Error)> lost;  // once, also after close() by the other side
};

class Link {
 public:
  virtual ~Link() = default;
  virtual void start(LinkEvents events) = 0;
  // After the link was lost: dropped.
  virtual void send(std::string bytes) = 0;
  // The other side sees it lost. No event comes here any more.
  virtual void close() = 0;
};

using LinkPtr = std::shared_ptr<Link>;

class LinkPort {
 public:
  // `from` is what the other side claims; its hello is checked by the peer.
  using Accept = std::function<void(NodeId from, LinkPtr)>;
  using Dialed = std::function<void(Result<LinkPtr>)>;

  virtual ~LinkPort() = default;
  virtual void listen(Accept accept) = 0;
  // Called back exactly once, by the deadline.
  virtual void dial(NodeId to, Instant deadline, Dialed done) = 0;
  // No call back any more; links are closed. Idempotent.
  virtual void stop() = 0;
};

}  // namespace shoal
