// The expert shards of this process as a group that is balanced: placements are loaded by the
// executor that is given, one after the other.
#pragma once

#include "actors/expert_group.h"
#include "actors/expert_shards.h"
#include "transport/scheduler.h"

namespace shoal {

class ShardGroup final : public ExpertGroup {
 public:
  // `shards` outlive what was deferred to `background`.
  ShardGroup(ExpertShards& shards, transport::Scheduler background);

  std::vector<ExpertTraffic> traffic() const override { return shards_.traffic(); }

  ExpertPlacementMap placement() const override { return shards_.placement(); }

  Bytes expert_bytes() const override;
  void place(std::vector<ExpertLayer> layers,
             Instant deadline,
             std::function<void(Result<EpochId>)> done) override;

 private:
  ExpertShards& shards_;
  const transport::Scheduler background_;
};

}  // namespace shoal
