// What a transport of one node's process is opened with.
#pragma once

#include <cstdint>
#include <string>

#include "transport/scheduler.h"
#include "transport/transport.h"

namespace shoal::transport {

struct TransportParams {
  NodeId self;
  IncarnationId incarnation;
  std::string cluster;     // only nodes of the same name talk to each other
  std::string host;        // numeric, of this machine
  std::uint16_t port = 0;  // 0: any free one
  TransportLimits limits;
  Clock now;
};

}  // namespace shoal::transport
