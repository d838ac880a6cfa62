// One process gets one number, drawn here: links, transport and membership tell its lives apart by
// it.
#include "tools/node_ports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/caf_links.h"
#include "actors/expert_node.h"
#include "tools/process_ports.h"
#include "transport/registry.h"

namespace shoal::tools {

namespace {

constexpr std::uint64_t kProcessBits = 48;  // as ClusterParts and the transport's incarnation have

std::uint64_t draw_process() {
  return std::max<std::uint64_t>(1, random_seed() >> (64 - kProcessBits));
}

tl::unexpected<Error> at_field(const TopologyNode& node, const char* field, const Error& error) {
  return fail(error.code, "node " + node.name + ": " + field + ": " + error.message);
}

// Rows for experts and what comes back may be as much at once as their exchange allows.
transport::TransportLimits bulk_limits(const ClusterPlan& plan, NodeId self) {
  transport::TransportLimits limits;
  if (has_expert_nodes(plan.topology)) {
    const config::Experts& experts = plan.configs.at(self.value).experts();
    limits.queued_per_peer = std::max(limits.queued_per_peer, Bytes{experts.in_flight_bytes()});
  }
  return limits;
}

}  // namespace

Result<std::unique_ptr<NodePorts>> NodePorts::open(const ClusterPlan& plan, NodeId self) {
  auto ports = std::unique_ptr<NodePorts>(new NodePorts());
  ports->self_ = self;
  ports->topology_ = plan.topology;
  ports->process_ = draw_process();
  const TopologyNode& node = plan.topology.nodes.at(self.value);
  if (self == plan.topology.owner) {
    auto store = transport::open_cluster_store("embedded", plan.state_dir, monotonic_now);
    if (!store) {
      return at_field(node, "state_dir", store.error());
    }
    ports->store_ = *std::move(store);
  }
  auto bulk = transport::open_transport("tcp",
                                        {.self = self,
                                         .incarnation = IncarnationId{ports->process_},
                                         .cluster = plan.cluster,
                                         .host = node.host,
                                         .port = node.bulk_port,
                                         .limits = bulk_limits(plan, self),
                                         .now = monotonic_now});
  if (!bulk) {
    return at_field(node, "bulk_port", bulk.error());
  }
  ports->transport_ = *std::move(bulk);
  TRY(ports->links_,
      open_caf_links({.self = self,
                      .topology = plan.topology,
                      .process = static_cast<std::uint32_t>(ports->process_),
                      .now = monotonic_now}));
  return ports;
}

ClusterParts NodePorts::parts(ModelIdentity identity) const {
  return {.self = self_,
          .topology = topology_,
          .links = *links_,
          .transport = *transport_,
          .store = store_.get(),
          .process = process_,
          .identity = std::move(identity)};
}

}  // namespace shoal::tools
