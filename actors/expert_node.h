// What a process has of experts, by its configuration and its place in the topology: shards for its
// own device, shards for all devices of the cluster, or its device's way to those.
#pragma once

#include <memory>
#include <string>

#include "actors/expert_parts.h"
#include "actors/expert_slots.h"
#include "actors/topology.h"
#include "kernels/launch_queue.h"
#include "schemas/config.pb.h"
#include "schemas/result.h"
#include "transport/scheduler.h"
#include "transport/transport.h"

namespace shoal {

struct ExpertNodeSetup {
  config::Experts config;
  MakeExpertEngine make_engine;
  transport::Scheduler timers;    // deadlines hold while a shard computes
  transport::Scheduler executor;  // runs all shards of the process
  // Loads what they are to hold, which may take long. Ends before what engines are made of.
  transport::Scheduler background;
  // Null: a node that is the whole cluster.
  const Topology* topology = nullptr;
  NodeId self{};
  transport::Transport* transport = nullptr;  // to other nodes
};

// Schedulers and transport outlive it; so does what engines are made of.
class ExpertNode {
 public:
  // With shards of its own, or in a topology that has_expert_nodes(). kMisconfigured: the model
  // cannot be spread so; errors of the engines.
  static Result<std::unique_ptr<ExpertNode>> open(const ExpertNodeSetup& setup);
  ~ExpertNode();

  ExpertParts parts() const;
  // Of a process with a device.
  kernels::ExchangeRunner runner();

  // Null: some are on nodes of their own.
  ExpertShards* shards() { return shards_.get(); }

  // Fails what is in flight. Idempotent.
  void stop();

  transport::ExpertExchange::Use exchange_use() const;
  // Of a shard of this process.
  kernels::ExpertEngineUse use(std::uint32_t shard) const;

  // A shard for a cluster loads a placement beside the one it serves.
  bool loading() const;

  // Prometheus text.
  std::string metrics_text() const;

 private:
  ExpertNode() = default;

  Result<void> open_remote(const ExpertNodeSetup& setup);

  std::unique_ptr<ExpertShards> shards_;  // with an exchange of its own
  std::unique_ptr<transport::ExpertExchange> exchange_;
  std::unique_ptr<ExpertHost> host_;
  std::unique_ptr<ExpertSource> source_;
};

}  // namespace shoal
