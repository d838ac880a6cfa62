// The expert shards of this process, on one device: their slots, the placement in force, and the
// way of a step's rows to them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/expert_dispatch.h"
#include "actors/expert_slots.h"
#include "kernels/expert_engine.h"
#include "kernels/launch_queue.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/expert_exchange.h"
#include "transport/scheduler.h"

namespace shoal {

struct ExpertShardsSetup {
  std::int32_t shards = 1;
  std::int32_t redundant = 0;  // slots of each shard and layer beyond those that all experts need
  Bytes weights{1LL << 40};    // ceiling of each shard
  Nanos limit{std::chrono::seconds(10)};  // of one layer's exchange
};

class ExpertShards;

// One life of a shard: the shard ends with it, unless a later life has begun.
class ExpertShardLife {
 public:
  ExpertShardLife() = default;
  ExpertShardLife(ExpertShards& shards, std::uint32_t shard, const void* engine);

  ExpertShardLife(ExpertShardLife&& other) noexcept { *this = std::move(other); }

  ExpertShardLife& operator=(ExpertShardLife&& other) noexcept;
  ~ExpertShardLife();

 private:
  ExpertShards* shards_ = nullptr;  // null: none
  std::uint32_t shard_ = 0;
  const void* engine_ = nullptr;
};

// Any thread; placements and lives begin one after the other, and an end waits for neither.
class ExpertShards {
 public:
  // All experts are loaded, in a placement for even load. The exchange's timers and the executor
  // run until stop(); what the engines are made of outlives the executor. kMisconfigured: the model
  // cannot be spread so; errors of the engines.
  static Result<std::unique_ptr<ExpertShards>> open(
      const ExpertShardsSetup& setup,
      const MakeExpertEngine& make_engine,
      std::unique_ptr<transport::ExpertExchange> exchange,
      transport::Scheduler executor);
  ~ExpertShards();

  // For the launch queue, whose steps end before this does.
  kernels::ExchangeRunner runner();

  // Loads what is new, then the shards serve it, then steps use it; steps on the way end by the
  // placement before. The epoch is the next one, whatever the layers' map says. An error: nothing
  // changed. kDeadline: loading took longer. kUnavailable: steps are on the way by the placement
  // before the one in force, which would not be served any more.
  Result<void> place(std::vector<ExpertLayer> layers, Instant deadline = Instant::max());

  // A shard dies with what it holds: exchanges that need it fail until it is restored.
  void end(std::uint32_t shard);
  // A new shard loads the slots of the placement in force.
  Result<void> restore(std::uint32_t shard);
  // The same, for as long as the life is held. Outlives it.
  Result<ExpertShardLife> begin(std::uint32_t shard);

  void stop();

  ExpertPlacementMap placement() const;

  std::uint32_t count() const { return static_cast<std::uint32_t>(setup_.shards); }

  kernels::ExpertEngineUse use(std::uint32_t shard) const;

  transport::ExpertExchange::Use exchange_use() const { return exchange_->use(); }

  std::vector<std::vector<std::int64_t>> routed() const { return dispatcher_.routed(); }

  std::vector<ExpertTraffic> traffic() const { return dispatcher_.traffic(); }

 private:
  friend class ExpertShardLife;

  ExpertShards(const ExpertShardsSetup& setup,
               const MakeExpertEngine& make_engine,
               std::unique_ptr<transport::ExpertExchange> exchange,
               transport::Scheduler executor);

  using EnginePtr = std::shared_ptr<kernels::ExpertEngine>;

  Result<void> load(kernels::ExpertEngine& engine,
                    std::uint32_t shard,
                    const std::vector<ExpertLayer>& layers,
                    Instant deadline) const;
  std::vector<EnginePtr> engines() const;
  Result<void> load_all(const std::vector<EnginePtr>& engines,
                        const std::vector<ExpertLayer>& layers,
                        Instant deadline) const;
  void serve(std::uint32_t shard, const EnginePtr& engine);
  void end_life(std::uint32_t shard, const void* engine);

  const ExpertShardsSetup setup_;
  const MakeExpertEngine make_engine_;
  const std::unique_ptr<transport::ExpertExchange> exchange_;
  const transport::Scheduler executor_;
  ExpertDispatcher dispatcher_;
  kernels::ExpertEngineLimits limits_;
  std::mutex changing_;             // held while a placement or a life begins
  std::mutex living_;               // held while a shard begins to serve, or its life ends
  mutable std::mutex mutex_;        // guards what follows
  std::vector<EnginePtr> engines_;  // null: the shard has ended
  ExpertPlacementMap placement_;    // written with changing_ held, too
};

// Slots of each layer for all experts and `redundant` more on each of `ranks`; experts and replicas
// as for even load.
Result<std::vector<ExpertLayer>> even_layers(const kernels::ExpertModel& model,
                                             std::int32_t ranks,
                                             std::int32_t redundant);

}  // namespace shoal
