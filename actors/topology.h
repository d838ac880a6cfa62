// The nodes of a cluster and what each does, as every node knows them from the same file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/ids.h"

namespace shoal {

// The parts a node has.
struct NodeRoles {
  bool gateway = false;  // HTTP
  bool router = false;   // with its balancers
  bool prefill = false;
  bool decode = false;
  bool experts = false;  // shards with the experts of all nodes that have a device

  bool has_device() const { return prefill || decode; }

  friend bool operator==(const NodeRoles&, const NodeRoles&) = default;
};

// Of the one node of a cluster: its experts are its device's.
inline constexpr NodeRoles kAllRoles{true, true, true, true, false};

struct TopologyNode {
  std::string name;
  NodeRoles roles;
  std::string host;                 // numeric
  std::uint16_t control_port = 0;   // links
  std::uint16_t bulk_port = 0;      // transport
  std::uint32_t expert_shards = 0;  // with role experts
};

struct Topology {
  std::vector<TopologyNode> nodes;  // a NodeId is a place in here
  NodeId owner;                     // of the membership
  std::uint64_t hash = 0;           // of everything that all nodes must agree on
};

// Some node holds the experts of all devices.
inline bool has_expert_nodes(const Topology& topology) {
  return std::ranges::any_of(topology.nodes,
                             [](const TopologyNode& node) { return node.roles.experts; });
}

// What a node answers with. Nodes of a cluster go on with each other's answers, so where two of
// them say something else the text would be wrong without an error. Empty: not compared.
struct ModelIdentity {
  std::string model;    // digest of its files
  std::string numeric;  // of the device: equal ids give equal bits
};

}  // namespace shoal
