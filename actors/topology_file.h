// The file that all nodes of a cluster are started with: who there is, and what each is configured
// with.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "actors/topology.h"
#include "schemas/config.pb.h"
#include "schemas/result.h"

namespace shoal {

struct ClusterPlan {
  Topology topology;
  std::string cluster;                  // its name
  std::filesystem::path state_dir;      // of the owner
  std::vector<config::Config> configs;  // by NodeId

  // kMisconfigured names the nearest known name.
  Result<NodeId> find(std::string_view name) const;
};

// "gateway, router"
std::string role_names(const NodeRoles& roles);

// Checked as a whole, the configuration of every node included. kMisconfigured names the file, the
// node, the field and what to do.
Result<ClusterPlan> read_topology(const std::filesystem::path& file);

}  // namespace shoal
