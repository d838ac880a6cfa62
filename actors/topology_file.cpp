// What a topology file must say before any node starts from it.
#include "actors/topology_file.h"

#include <algorithm>
#include <arpa/inet.h>
#include <map>
#include <optional>
#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "actors/config.h"
#include "actors/text_format.h"
#include "schemas/topology.pb.h"

namespace shoal {
namespace {

constexpr int kMostNodes = 256;   // a request id has 8 bits for its node
constexpr int kLongestName = 64;  // in every log line
constexpr std::int32_t kMostPort = 65535;

tl::unexpected<Error> refuse(const std::string& what) {
  return fail(Code::kMisconfigured, what);
}

// Letters, digits, '-', '_' and '.': names are labels of metrics and words on command lines.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
             std::string_view::npos;
}

bool is_loopback(const std::string& host) {
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

Result<NodeRoles> read_roles(const config::TopologyNode& node) {
  NodeRoles roles;
  for (const int role : node.role()) {
    bool& has = role == config::TopologyNode::gateway   ? roles.gateway
                : role == config::TopologyNode::router  ? roles.router
                : role == config::TopologyNode::prefill ? roles.prefill
                : role == config::TopologyNode::decode  ? roles.decode
                                                        : roles.experts;
    if (std::exchange(has, true)) {
      return refuse("role: " +
                    config::TopologyNode::Role_Name(static_cast<config::TopologyNode::Role>(role)) +
                    " is given twice");
    }
  }
  if (roles == NodeRoles{}) {
    return refuse("role: none is given; choose from gateway, router, prefill, decode, experts");
  }
  return roles;
}

Result<std::uint16_t> read_port(const char* field, std::int32_t port) {
  if (port < 1 || port > kMostPort) {
    return refuse(std::string(field) + ": " + std::to_string(port) +
                  " is no port, give one of 1 .. " + std::to_string(kMostPort));
  }
  return static_cast<std::uint16_t>(port);
}

Result<TopologyNode> read_node(const config::TopologyNode& node) {
  TopologyNode out;
  out.name = node.name();
  TRY(out.roles, read_roles(node));
  out.host = node.host();
  if (!is_loopback(out.host)) {
    return refuse("host: \"" + out.host +
                  "\" is not on loopback; links are not encrypted yet, so all nodes run on one "
                  "machine: give 127.0.0.1");
  }
  TRY(out.control_port, read_port("control_port", node.control_port()));
  TRY(out.bulk_port, read_port("bulk_port", node.bulk_port()));
  if (node.has_http_port() && !out.roles.gateway) {
    return refuse("http_port: only a node with role gateway serves HTTP");
  }
  return out;
}

// The configuration of all nodes, then the node's own over it.
Result<config::Config> read_config(const config::Topology& file, const config::TopologyNode& node) {
  config::Config config = file.config();
  config.MergeFrom(node.config());
  if (node.has_http_port()) {
    config.mutable_http()->set_port(node.http_port());
  }
  if (node.has_metrics_port()) {
    config.mutable_http()->set_metrics_port(node.metrics_port());
  }
  TRY_VOID(validate(config));
  return config;
}

// Who has taken which port of which host, and for what.
class TakenPorts {
 public:
  Result<void> take(const TopologyNode& node, const char* field, std::uint16_t port) {
    const auto [taken, is_new] = owners_.try_emplace({node.host, port}, node.name, field);
    if (!is_new) {
      return refuse(std::string(field) + ": port " + std::to_string(port) + " is already " +
                    taken->second.second + " of node " + taken->second.first +
                    "; give each its own");
    }
    return {};
  }

 private:
  std::map<std::pair<std::string, std::uint16_t>, std::pair<std::string, const char*>> owners_;
};

Result<void> take_ports(const TopologyNode& node, const config::Config& config, TakenPorts& taken) {
  TRY_VOID(taken.take(node, "control_port", node.control_port));
  TRY_VOID(taken.take(node, "bulk_port", node.bulk_port));
  if (node.roles.gateway && config.http().port() != 0) {  // 0: any free one
    TRY_VOID(taken.take(node, "http_port", static_cast<std::uint16_t>(config.http().port())));
  }
  if (config.http().metrics_port() != 0) {
    TRY_VOID(
        taken.take(node, "metrics_port", static_cast<std::uint16_t>(config.http().metrics_port())));
  }
  return {};
}

Result<void> add_node(const config::Topology& file,
                      const config::TopologyNode& node,
                      TakenPorts& taken,
                      ClusterPlan& plan) {
  TRY(TopologyNode read, read_node(node));
  TRY(config::Config config, read_config(file, node));
  TRY_VOID(take_ports(read, config, taken));
  if (read.roles.experts) {
    read.expert_shards = static_cast<std::uint32_t>(std::max(1, config.experts().shards()));
  }
  plan.topology.nodes.push_back(std::move(read));
  plan.configs.push_back(std::move(config));
  return {};
}

Result<void> add_nodes(const config::Topology& file, ClusterPlan& plan) {
  if (file.node_size() > kMostNodes) {
    return refuse("node: there are " + std::to_string(file.node_size()) + ", at most " +
                  std::to_string(kMostNodes) + " can be");
  }
  TakenPorts taken;
  for (const config::TopologyNode& node : file.node()) {
    if (!is_plain_name(node.name())) {
      return refuse("node " + std::to_string(plan.topology.nodes.size() + 1) + ": name: \"" +
                    node.name() + "\" is no name; use 1 .. " + std::to_string(kLongestName) +
                    " letters, digits, '-', '_' and '.'");
    }
    if (plan.find(node.name())) {
      return refuse("node " + node.name() + ": name: another node has it; give each its own");
    }
    if (auto added = add_node(file, node, taken, plan); !added) {
      return refuse("node " + node.name() + ": " + added.error().message);
    }
  }
  return {};
}

Result<void> check_roles(const std::vector<TopologyNode>& nodes) {
  constexpr std::pair<const char*, bool NodeRoles::*> kRoles[] = {{"gateway", &NodeRoles::gateway},
                                                                  {"router", &NodeRoles::router},
                                                                  {"prefill", &NodeRoles::prefill},
                                                                  {"decode", &NodeRoles::decode}};
  for (const auto& [name, role] : kRoles) {
    if (std::none_of(nodes.begin(), nodes.end(), [role = role](const TopologyNode& n) {
          return n.roles.*role;
        })) {
      return refuse(std::string("node: none has role ") + name + "; give it to one");
    }
  }
  return {};
}

Result<NodeId> choose_owner(const config::Topology& file, const ClusterPlan& plan) {
  if (file.has_owner()) {
    auto owner = plan.find(file.owner());
    return owner ? owner : refuse("owner: " + owner.error().message);
  }
  const auto& nodes = plan.topology.nodes;
  const auto router = std::find_if(
      nodes.begin(), nodes.end(), [](const TopologyNode& node) { return node.roles.router; });
  return NodeId{static_cast<std::uint32_t>(router - nodes.begin())};
}

// FNV-1a of the file's canonical bytes: layout and comments do not count.
std::uint64_t hash_of(const config::Topology& file) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    file.SerializeToCodedStream(&coded);
  }
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
  }
  return hash;
}

Result<ClusterPlan> make_plan(const config::Topology& file) {
  ClusterPlan plan;
  if (!is_plain_name(file.cluster())) {
    return refuse("cluster: \"" + file.cluster() +
                  "\" is no name; give the cluster one, so that nodes of others are told apart");
  }
  if (file.state_dir().empty()) {
    return refuse("state_dir: is missing; give a directory where the owner keeps its record");
  }
  TRY_VOID(add_nodes(file, plan));
  TRY_VOID(check_roles(plan.topology.nodes));
  TRY(plan.topology.owner, choose_owner(file, plan));
  plan.topology.hash = hash_of(file);
  plan.cluster = file.cluster();
  plan.state_dir = file.state_dir();
  return plan;
}

}  // namespace

std::string role_names(const NodeRoles& roles) {
  std::string names;
  for (const auto& [name, has] : {std::pair("gateway", roles.gateway),
                                  std::pair("router", roles.router),
                                  std::pair("prefill", roles.prefill),
                                  std::pair("decode", roles.decode),
                                  std::pair("experts", roles.experts)}) {
    if (has) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
  }
  return names;
}

Result<NodeId> ClusterPlan::find(std::string_view name) const {
  std::vector<std::string> names;
  for (const TopologyNode& node : topology.nodes) {
    if (node.name == name) {
      return NodeId{static_cast<std::uint32_t>(names.size())};
    }
    names.push_back(node.name);
  }
  const auto nearest = nearest_name(name, names);
  std::string known;
  for (const std::string& other : names) {
    known += (known.empty() ? "" : ", ") + other;
  }
  return refuse("there is no node \"" + std::string(name) + "\", " +
                (nearest ? "did you mean \"" + *nearest + "\"?" : "known are: " + known));
}

Result<ClusterPlan> read_topology(const std::filesystem::path& file) {
  config::Topology read;
  TRY_VOID(read_text_format(file, {"topology file", "See deploy/topologies."}, read));
  auto plan = make_plan(read);
  return plan ? plan : refuse(file.string() + ": " + plan.error().message);
}

}  // namespace shoal
