// Experts on shards with the threads that they need: this process's shards, or its way to others'.
#pragma once

#include <memory>
#include <optional>

#include "actors/config.h"
#include "actors/expert_group.h"
#include "actors/expert_node.h"
#include "actors/shard_group.h"
#include "kernels/registry.h"
#include "schemas/result.h"
#include "transport/thread_scheduler.h"

namespace shoal::tools {

// Where they are. Null: all in this process, for its device.
struct ExpertPlace {
  const Topology* topology = nullptr;
  NodeId self{};
  transport::Transport* transport = nullptr;
};

class ShardedExperts {
 public:
  // A device yields at its experts. What engines are made of outlives them, as the transport does.
  static Result<std::unique_ptr<ShardedExperts>> open(const config::Experts& config,
                                                      MakeExpertEngine make_engine,
                                                      const ExpertPlace& place = {});

  ExpertNode& node() { return *node_; }

  // For a node. Those on nodes of their own are no group of this process.
  ExpertBalanceParts balance() { return {group_ ? &*group_ : nullptr, background_.port()}; }

 private:
  ShardedExperts();

  // Deadlines hold while a shard computes.
  transport::ThreadScheduler timers_;
  transport::ThreadScheduler executor_;
  std::unique_ptr<ExpertNode> node_;       // stops before its threads end
  std::optional<ShardGroup> group_;        // none: they are not all in this process
  transport::ThreadScheduler background_;  // plans, and loads what moves; ends before what it needs
};

}  // namespace shoal::tools
