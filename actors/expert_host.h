// The expert shards of this process for the devices of a whole cluster: what each life of one is
// made of. Which experts it holds, sources tell it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  std::uint32_t first_rank = 0;       // of them
  Bytes weights{1LL << 40};           // ceiling of each
  transport::Scheduler background{};  // loads
};

// Of all lives of the shards so far.
struct ExpertHostMoves {
  std::int64_t experts = 0;  // brought to a shard
  Bytes bytes{0};            // of them
  Nanos time{0};             // of loading
  std::int64_t failed = 0;   // placements that could not be loaded, or were given up half-way
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

  // The placement that it serves; 0: none.
  EpochId served(std::uint32_t shard) const;

  ExpertHostMoves moves() const;

  // Shards that load a placement beside the one they serve.
  int loading() const;

 private:
  friend class HostedShard;

  void serve(const HostedShard& shard, EpochId epoch, bool is_first);
  void end(const HostedShard& shard);
  void begin_load(bool is_move);
  void end_load(bool is_move, const ExpertHostMoves& moves);

  struct Place {
    std::uint64_t life = 0;
    std::weak_ptr<kernels::ExpertEngine> engine{};
    EpochId served{};
  };

  const ExpertHostSetup setup_;
  const MakeExpertEngine make_engine_;
  transport::ExpertExchange& exchange_;
  const transport::Scheduler executor_;
  mutable std::mutex mutex_;
  std::vector<Place> places_;
  ExpertHostMoves moves_;
  int loading_ = 0;
};

// One life: an engine, and its place at the exchange until this ends. One thread; nothing else is
// called while it loads.
class HostedShard {
 public:
  ~HostedShard();
  HostedShard(const HostedShard&) = delete;
  HostedShard& operator=(const HostedShard&) = delete;

  // Loads what the placement gives it, to be served later, in the background: `done` is called
  // there. kInvalid: a placement of another model or of other ranks; kDeadline: `gives_up` said so;
  // errors of the engine. Outlived by what it loads.
  void load(std::shared_ptr<const ExpertPlacementMap> map,
            std::shared_ptr<const std::atomic<bool>> gives_up,
            std::function<void(Result<void>)> done);
  // What was loaded last, beside the placement before. Later ones only.
  void serve(std::shared_ptr<const ExpertPlacementMap> map);
  // Lets go of what was loaded and is not served.
  void drop();
  // Serves no placement before the last one any more; while it loads, too.
  void retire();

  kernels::ExpertEngineUse use() const;

 private:
  friend class ExpertHost;

  HostedShard(ExpertHost& host, std::uint32_t shard, std::uint64_t life);

  Result<void> prepare(const ExpertPlacementMap& map);
  Result<void> check(const ExpertPlacementMap& map) const;
  std::int64_t brought(const ExpertPlacementMap& map) const;

  RankSlots slots() const { return {host_.setup_.first_rank + shard_, slots_}; }

  ExpertHost& host_;
  const std::uint32_t shard_;
  const std::uint64_t life_;
  std::int32_t slots_ = 0;
  std::shared_ptr<kernels::ExpertEngine> engine_;     // null: it never held anything
  std::shared_ptr<const ExpertPlacementMap> served_;  // null: nothing
};

}  // namespace shoal
