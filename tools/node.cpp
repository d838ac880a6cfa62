// shoal node: one node of a cluster, as its topology file says.
#include <chrono>
#include <cstdio>
#include <string>

#include "actors/topology_file.h"
#include "tools/commands.h"
#include "tools/local_server.h"
#include "tools/server_life.h"

namespace shoal::tools {

namespace {

void print_ready(const ClusterPlan& plan, NodeId self, const LocalServer& server, Nanos took) {
  const TopologyNode& node = plan.topology.nodes.at(self.value);
  const std::string serves =
      server.url().empty() ? "" : " serves " + server.model_name() + " at " + server.url();
  std::printf(
      "shoal node %s (%s) of %s%s (up in %lld ms)\n",
      node.name.c_str(),
      role_names(node.roles).c_str(),
      plan.cluster.c_str(),
      serves.c_str(),
      static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  if (node.roles.router || node.roles.has_device()) {
    std::printf("%s\n", server.kv_text().c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int run_node(const NodeCommandOptions& options) {
  const auto plan = read_topology(options.topology);
  if (!plan) {
    return report(plan.error());
  }
  const auto self = plan->find(options.name);
  if (!self) {
    return report(Error{self.error().code, options.topology + ": " + self.error().message});
  }
  return run_until_signal(
      {[&] { return LocalServer::start(*plan, *self); },
       [&](const LocalServer& server, Nanos took) { print_ready(*plan, *self, server, took); },
       std::chrono::milliseconds(plan->configs.at(self->value).request().drain_ms())});
}

}  // namespace shoal::tools
