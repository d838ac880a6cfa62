// What a topology file says, and every way in which it is refused.
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "actors/topology_file.h"

using namespace shoal;

namespace {

constexpr char kThreeNodes[] = R"(cluster: "pond"
state_dir: "state"
config { kv { blocks: 64 } log { level: "debug" } }
node { name: "front" role: [gateway, router] control_port: 9001 bulk_port: 9002 http_port: 9003 }
node { name: "pre" role: prefill control_port: 9004 bulk_port: 9005 }
node { name: "dec" role: decode control_port: 9006 bulk_port: 9007 config { kv { blocks: 32 } } }
)";

class TopologyText {
 public:
  explicit TopologyText(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("shoal_topology_test_" + std::to_string(::getpid()) + ".txtpb")) {
    std::ofstream(path_) << text;
  }

  ~TopologyText() { std::filesystem::remove(path_); }

  Result<ClusterPlan> read() const { return read_topology(path_); }

 private:
  std::filesystem::path path_;
};

// The three nodes with one piece replaced.
std::string with(const std::string& piece, const std::string& other) {
  std::string text = kThreeNodes;
  const auto at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.replace(at, piece.size(), other);
}

void check_refused(const std::string& text, const std::string& words) {
  CAPTURE(text);
  const auto plan = TopologyText(text).read();
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().code == Code::kMisconfigured);
  CHECK_MESSAGE(plan.error().message.find(words) != std::string::npos, plan.error().message);
  CHECK(plan.error().message.find("shoal_topology_test_") != std::string::npos);
}

}  // namespace

TEST_CASE("a node of any role may have a port for monitors, which is its own") {
  const auto plan =
      TopologyText(with("bulk_port: 9005", "bulk_port: 9005 metrics_port: 9010")).read();
  REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  CHECK(plan->configs.at(0).http().metrics_port() == 0);
  CHECK(plan->configs.at(1).http().metrics_port() == 9010);
  check_refused(with("bulk_port: 9005", "bulk_port: 9005 metrics_port: 9003"),
                "metrics_port: port 9003 is already http_port of node front");
  check_refused(with("bulk_port: 9005", "bulk_port: 9005 metrics_port: 70000"),
                "http.metrics_port: 70000 is out of range");
}

TEST_CASE("a topology file gives every node its roles, ports and configuration") {
  const auto plan = TopologyText(kThreeNodes).read();
  REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  CHECK(plan->cluster == "pond");
  CHECK(plan->state_dir == "state");
  REQUIRE(plan->topology.nodes.size() == 3);
  const TopologyNode& front = plan->topology.nodes[0];
  CHECK(front.name == "front");
  CHECK(front.roles == NodeRoles{true, true, false, false});
  CHECK(front.host == "127.0.0.1");
  CHECK(front.control_port == 9001);
  CHECK(front.bulk_port == 9002);
  CHECK(role_names(front.roles) == "gateway, router");
  CHECK(plan->configs[0].http().port() == 9003);
  CHECK(plan->configs[0].kv().blocks() == 64);
  CHECK(plan->configs[2].kv().blocks() == 32);
  CHECK(plan->configs[2].log().level() == "debug");
  CHECK(plan->topology.owner == NodeId{0});
  CHECK(plan->find("dec").value() == NodeId{2});
}

TEST_CASE("a node with role experts has the shards that its configuration says, at least one") {
  const std::string experts =
      std::string(kThreeNodes) +
      "node { name: \"x\" role: experts control_port: 9008 bulk_port: 9009 }\n"
      "node { name: \"y\" role: experts control_port: 9010 bulk_port: 9011 "
      "config { experts { shards: 3 } } }\n";
  const auto plan = TopologyText(experts).read();
  REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  CHECK(plan->topology.nodes[3].roles == NodeRoles{.experts = true});
  CHECK(role_names(plan->topology.nodes[3].roles) == "experts");
  CHECK(plan->topology.nodes[2].expert_shards == 0);
  CHECK(plan->topology.nodes[3].expert_shards == 1);
  CHECK(plan->topology.nodes[4].expert_shards == 3);
}

TEST_CASE("the owner is the one that is named, else the first router") {
  CHECK(TopologyText("owner: \"dec\"\n" + std::string(kThreeNodes)).read()->topology.owner ==
        NodeId{2});
  const std::string swapped = with("role: [gateway, router]", "role: gateway");
  const auto plan = TopologyText(swapped +
                                 "node { name: \"r\" role: router control_port: 9011 "
                                 "bulk_port: 9012 }")
                        .read();
  REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  CHECK(plan->topology.owner == NodeId{3});
}

TEST_CASE("the hash tells topologies apart and comments not") {
  const auto hash = [](const std::string& text) {
    return TopologyText(text).read()->topology.hash;
  };
  CHECK(hash(kThreeNodes) == hash("# a remark\n" + std::string(kThreeNodes)));
  CHECK(hash(kThreeNodes) != hash(with("9007", "9008")));
  CHECK(hash(kThreeNodes) != hash(with("blocks: 32", "blocks: 33")));
}

TEST_CASE("an unknown name is refused with line and nearest name") {
  check_refused(with("bulk_port: 9005", "bulk_prt: 9005"), ".txtpb:5:");
  check_refused(with("bulk_port: 9005", "bulk_prt: 9005"), "Did you mean \"bulk_port\"?");
  check_refused(with("role: decode", "role: decoder"), "Did you mean \"decode\"?");
  check_refused(with("blocks: 64", "block: 64"), "Did you mean \"blocks\"?");
  check_refused(with("cluster:", "xyzzy:"), "See deploy/topologies.");
}

TEST_CASE("what a node may not be is refused with its name and field") {
  check_refused(with("\"pre\"", "\"p e\""), "node 2: name: \"p e\"");
  check_refused(with("name: \"pre\"", ""), "node 2: name: \"\"");
  check_refused(with("\"pre\"", "\"dec\""), "node dec: name: another node has it");
  check_refused(with("role: prefill", ""), "node pre: role: none");
  check_refused(with("role: prefill", "role: [prefill, prefill]"), "role: prefill is given twice");
  check_refused(with("role: prefill", "role: prefill host: \"10.0.0.2\""), "not encrypted");
  check_refused(with("role: prefill", "role: prefill host: \"localhost\""), "node pre: host:");
  check_refused(with("control_port: 9004", ""), "node pre: control_port: 0");
  check_refused(with("9005", "65536"), "node pre: bulk_port: 65536");
  check_refused(with("9005", "9005 http_port: 9009"), "node pre: http_port: only");
  check_refused(with("blocks: 32", "blocks: -1"), "node dec: kv.blocks: -1");
  check_refused(with("9003", "70000"), "node front: http.port: 70000");
}

TEST_CASE("no two nodes share a port") {
  check_refused(with("9007", "9004"),
                "node dec: bulk_port: port 9004 is already control_port of node pre");
  check_refused(with("9003", "9001"), "http_port: port 9001 is already control_port of node front");
}

TEST_CASE("a cluster without a name, a state directory or a role is refused") {
  check_refused(with("cluster: \"pond\"", ""), "cluster: \"\"");
  check_refused(with("state_dir: \"state\"", ""), "state_dir: is missing");
  check_refused(with("[gateway, router]", "router"), "http_port: only");
  check_refused(with("role: decode", "role: prefill"), "none has role decode");
  check_refused(with("role: prefill", "role: decode"), "none has role prefill");
  check_refused("owner: \"decc\"\n" + std::string(kThreeNodes), "owner: there is no node \"decc\"");
}

TEST_CASE("a node that is not in the file is named with the nearest one") {
  const auto plan = TopologyText(kThreeNodes).read();
  REQUIRE(plan.has_value());
  CHECK(plan->find("fron").error().message == "there is no node \"fron\", did you mean \"front\"?");
  CHECK(plan->find("zzzzzz").error().message.find("known are: front, pre, dec") !=
        std::string::npos);
}

TEST_CASE("a file that cannot be a topology is refused as such") {
  const auto plan = read_topology(std::filesystem::temp_directory_path());
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().message.find("give a topology file") != std::string::npos);
}
