// A node in this process, with its HTTP side if it is a gateway: what `shoal serve` and `shoal
// node` run, and what `shoal chat` and the benchmarks start for themselves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/config.h"
#include "actors/http_server.h"
#include "actors/node.h"
#include "actors/topology_file.h"
#include "kernels/launch_queue.h"
#include "kernels/registry.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "tools/kv_plan.h"
#include "tools/node_ports.h"
#include "tools/process_ports.h"
#include "tools/server_plan.h"
#include "tools/sharded_experts.h"

namespace shoal::tools {

// For the one who ends a server.
struct WorkLeft {
  bool has_clients = false;    // a gateway: its drain waits for their answers
  std::int64_t answers = 0;    // of those clients
  std::int64_t cut = 0;        // of them, since the start
  bool has_memory = false;     // KV memory: prefill or decode
  std::int64_t sequences = 0;  // in it
  std::int64_t routed = 0;     // answers in its router's ledger
};

class LocalServer {
 public:
  // Serves when it returns. Errors name the file, field, flag or address and what to do.
  static Result<std::unique_ptr<LocalServer>> start(const Config& config);
  // One node of a cluster: runs when it returns; /ready says when the cluster is whole.
  static Result<std::unique_ptr<LocalServer>> start(const ClusterPlan& cluster, NodeId self);
  ~LocalServer();

  // Empty without HTTP.
  std::string url() const { return http_ == nullptr ? std::string() : http_->url(); }

  // Of the pages for monitors; empty without them.
  std::string pages_url() const { return pages_ == nullptr ? std::string() : pages_->url(); }

  std::string model_name() const { return model_name_; }

  // Where its KV outlives a request, and how that is now; one line.
  std::string kv_text() const { return describe_kv(config_, blocks_.get()); }

  WorkLeft work_left() const;

  // False for good: the process must be started again.
  bool can_serve() const { return node_->can_serve(); }

  // Open answers finish, up to `limit`. False when some were cut.
  bool drain(Nanos limit);
  // Ends everything. False: an actor still runs, and the process must leave by std::_Exit.
  bool stop();

 private:
  explicit LocalServer(const Config& config) : config_(config) {}

  static Result<std::unique_ptr<LocalServer>> start(const Config& config,
                                                    const ClusterPlan* cluster,
                                                    NodeId self);
  Result<void> open_device(DevicePlan plan);
  Result<void> open_experts(const Config& config, const DevicePlan& plan, const Topology* topology);
  void open_launchers();
  Result<void> open_node(const Config& config, const ServerPlan& plan);
  Result<void> open_front(const Config& config,
                          const ServerPlan& plan,
                          FrontPlan front,
                          std::vector<std::string> nodes);
  Result<void> open_pages(const Config& config, std::vector<std::string> nodes);
  HttpParts http_parts(std::vector<std::string> nodes) const;

  Config config_;
  std::string model_name_;
  Pause pause_;  // of a device that takes time for nothing
  std::vector<std::unique_ptr<kernels::Device>>
      devices_;                                           // one a rank; none: no prefill, no decode
  std::unique_ptr<kernels::ExpertDevice> expert_device_;  // of shards without a device
  std::unique_ptr<NodePorts> ports_;                      // null: a cluster of its own
  std::unique_ptr<ShardedExperts> experts_;  // null: the device runs its experts itself
  // Of a node without experts in a cluster where they are on others. Null: of another one.
  std::unique_ptr<transport::ThreadScheduler> plans_;
  std::vector<std::unique_ptr<kernels::LaunchQueue>> launchers_;  // of the devices
  std::unique_ptr<transport::BlockStore> blocks_;                 // null: KV ends with its request
  std::unique_ptr<Node> node_;
  std::unique_ptr<HttpServer> http_;   // null: no gateway
  std::unique_ptr<HttpServer> pages_;  // for monitors; null: none
  bool started_ = false;
  std::shared_ptr<std::atomic<bool>> silent_ = std::make_shared<std::atomic<bool>>(false);
  bool stopped_ = false;
};

}  // namespace shoal::tools
