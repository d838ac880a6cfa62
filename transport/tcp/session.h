// One connection and who is at its other end. The loop owns it, reads, writes and ends it.
#pragma once

#include "transport/tcp/connection.h"

namespace shoal::transport {

class Session : public FrameSink {
 public:
  Session(FileDescriptor socket, NodeId peer) : connection(std::move(socket)), peer_(peer) {}

  // Hello and welcome are over. Before that no moving byte keeps the connection alive.
  virtual bool is_established() const = 0;
  // Somebody waits for a byte to move.
  virtual bool has_work() const = 0;

  NodeId peer() const { return peer_; }

  Connection connection;
  std::uint64_t id = 0;
  Instant moved_at;             // when a byte moved last, or its work began
  bool waits_to_write = false;  // the socket took no more
  bool is_touched = false;      // looked at in this turn

 protected:
  NodeId peer_;
};

}  // namespace shoal::transport
