// The row `memory`: endpoints of one process that meet in a fabric. It has no thread: a scheduler
// decides when anything happens and a hook what becomes of every transfer, so that a simulator
// holds both. Bytes are copied and checksummed as over a wire.
#pragma once

#include <functional>
#include <memory>

#include "transport/scheduler.h"
#include "transport/transport.h"

namespace shoal::transport {

enum class Fate : std::uint8_t {
  kDeliver,
  kDrop,     // never arrives: the operation ends by its deadline
  kCorrupt,  // arrives with a bit turned, which the checksum finds
  kReset,    // cuts the two nodes' connections: all between them is kPeerLost, at both ends
};

struct Verdict {
  Nanos delay{0};
  Fate fate = Fate::kDeliver;
};

struct FabricParts {
  Scheduler scheduler;
  // One call a transfer: a request or an acknowledgement (0 bytes), a buffer, a message. It runs
  // under the fabric's lock and must not call the fabric. None: everything arrives at once.
  std::function<Verdict(NodeId from, NodeId to, Bytes size)> verdict;
};

// Lives until its last endpoint is gone. Any thread.
class MemoryFabric {
 public:
  explicit MemoryFabric(FabricParts parts);
  ~MemoryFabric();

  // Several incarnations of a node may be open: the peers' set_peer says whom they know.
  std::unique_ptr<Transport> open(NodeId node,
                                  IncarnationId incarnation,
                                  const TransportLimits& limits = {});
  // Not alive: cut off like a killed process. Everything between it and any other is kPeerLost.
  void set_alive(NodeId node, IncarnationId incarnation, bool alive);

  class State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace shoal::transport
