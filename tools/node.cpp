// shoal node: one node of a cluster, as its topology file says.
#include <chrono>
#include <cstdio>
#include <memory>
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
  if (!server.pages_url().empty()) {
    std::printf("pages for monitors at %s\n", server.pages_url().c_str());
  }
  if (node.roles.router || node.roles.has_device()) {
    std::printf("%s\n", server.kv_text().c_str());
  }
  std::fflush(stdout);
}

// Errors name the field of the topology where the option is the node's own.
Result<std::unique_ptr<LocalServer>> start(const ClusterPlan& plan, NodeId self) {
  auto server = LocalServer::start(plan, self);
  if (!server) {
    for (const std::string option : {"http.port", "http.metrics_port"}) {
      if (server.error().message.starts_with(option + ": ")) {
        const std::string rest = server.error().message.substr(option.size());
        return fail(server.error().code,
                    "node " + plan.topology.nodes.at(self.value).name + ": " +
                        (option == "http.port" ? "http_port" : "metrics_port") + rest);
      }
    }
  }
  return server;
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
      {[&] { return start(*plan, *self); },
       [&](const LocalServer& server, Nanos took) { print_ready(*plan, *self, server, took); },
       std::chrono::milliseconds(plan->configs.at(self->value).request().drain_ms())});
}

}  // namespace shoal::tools
