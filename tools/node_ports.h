// What a node reaches the other nodes of its cluster through: links, bulk transport, and at the
// owner of the membership the store of its record.
#pragma once

#include <memory>

#include "actors/link.h"
#include "actors/node.h"
#include "actors/topology_file.h"
#include "schemas/result.h"
#include "transport/cluster_store.h"
#include "transport/transport.h"

namespace shoal::tools {

class NodePorts {
 public:
  // Listens when it returns. Errors name the node, the field of the topology and what to do.
  static Result<std::unique_ptr<NodePorts>> open(const ClusterPlan& plan, NodeId self);

  NodeId self() const { return self_; }

  transport::Transport& transport() const { return *transport_; }

  // The node that is built with them must be gone before the ports are.
  ClusterParts parts(ModelIdentity identity) const;

 private:
  NodePorts() = default;

  NodeId self_;
  Topology topology_;
  std::uint64_t process_ = 0;
  std::unique_ptr<LinkPort> links_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::ClusterStore> store_;
};

}  // namespace shoal::tools
