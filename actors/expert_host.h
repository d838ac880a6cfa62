// The expert shards of this process for the devices of a whole cluster: what each life of one is
// made of. Which experts it holds, sources tell it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/expert_slots.h"
#include "actors/topology.h"
#include "kernels/expert_engine.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "transport/expert_exchange.h"
#include "transport/scheduler.h"

namespace shoal {

// All expert shards of a cluster in the order of the topology: the rank of each is its place here.
std::vector<ExpertHome> expert_ranks(const Topology& topology);

struct ExpertHostSetup {
  std::uint32_t shards = 1;
  std::uint32_t first_rank = 0;  // of them
  Bytes weights{1LL << 40};      // ceiling of each
};

class HostedShard;

// Any thread.
class ExpertHost {
 public:
  // The exchange, its timers and the executor outlive it; so does what engines are made of.
  ExpertHost(const ExpertHostSetup& setup,
             MakeExpertEngine make_engine,
             transport::ExpertExchange& exchange,
             transport::Scheduler executor);

  // Serves nothing yet. The life before, if there is one, may end later.
  std::unique_ptr<HostedShard> begin(std::uint32_t shard);

  std::uint32_t count() const { return setup_.shards; }

  kernels::ExpertEngineUse use(std::uint32_t shard) const;

 private:
  friend class HostedShard;

  void serve(const HostedShard& shard);
  void end(const HostedShard& shard);

  struct Place {
    std::uint64_t life = 0;
    std::weak_ptr<kernels::ExpertEngine> engine{};
  };

  const ExpertHostSetup setup_;
  const MakeExpertEngine make_engine_;
  transport::ExpertExchange& exchange_;
  const transport::Scheduler executor_;
  mutable std::mutex mutex_;
  std::vector<Place> places_;
};

// One life: an engine, and its place at the exchange until this ends. One thread.
class HostedShard {
 public:
  ~HostedShard();
  HostedShard(const HostedShard&) = delete;
  HostedShard& operator=(const HostedShard&) = delete;

  // Loads what the placement gives it, to be served later. kInvalid: a placement of another model
  // or of other ranks; errors of the engine. Then it holds nothing but what it serves.
  Result<void> hold(const ExpertPlacementMap& map);
  // What it holds, beside the placement before. Later ones only.
  void serve(EpochId epoch);

  kernels::ExpertEngineUse use() const;

 private:
  friend class ExpertHost;

  HostedShard(ExpertHost& host, std::uint32_t shard, std::uint64_t life);

  Result<void> check(const ExpertPlacementMap& map) const;

  ExpertHost& host_;
  const std::uint32_t shard_;
  const std::uint64_t life_;
  std::int32_t slots_ = 0;
  std::shared_ptr<kernels::ExpertEngine> engine_;  // null: it never held anything
  bool at_exchange_ = false;
};

}  // namespace shoal
