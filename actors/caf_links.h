// Links between processes over CAF's BASP: one connection a pair of nodes, one actor an end.
//
// Not encrypted and not authenticated: loopback only. Links must be gone before their port is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "actors/link.h"
#include "actors/topology.h"

namespace shoal {

struct CafLinkParams {
  NodeId self;
  Topology topology;  // names, hosts and control ports are used
  // Of this process alone, as no two CAF nodes may have the same; drawn at start.
  std::uint32_t process = 0;
  std::function<Instant()> now;  // any thread
};

// Listens when it returns. kMisconfigured names the node and its control_port.
Result<std::unique_ptr<LinkPort>> open_caf_links(CafLinkParams params);

}  // namespace shoal
