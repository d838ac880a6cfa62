// Expert shards of this process with the threads that they run on.
#pragma once

#include <memory>
#include <optional>

#include "actors/config.h"
#include "actors/expert_group.h"
#include "actors/expert_shards.h"
#include "actors/shard_group.h"
#include "kernels/registry.h"
#include "schemas/result.h"
#include "transport/thread_scheduler.h"

namespace shoal::tools {

class ShardedExperts {
 public:
  // `config.shards` is at least 1, and the device yields at its experts. It outlives them.
  static Result<std::unique_ptr<ShardedExperts>> open(const config::Experts& config,
                                                      kernels::Device& device);

  ExpertShards& shards() { return *shards_; }

  // For a node.
  ExpertBalanceParts balance() { return {&*group_, background_.port()}; }

 private:
  ShardedExperts();

  // Deadlines hold while a shard computes.
  transport::ThreadScheduler timers_;
  transport::ThreadScheduler executor_;
  std::unique_ptr<ExpertShards> shards_;  // stops before its threads end
  std::optional<ShardGroup> group_;
  transport::ThreadScheduler background_;  // plans, and loads what moves; ends before what it needs
};

}  // namespace shoal::tools
