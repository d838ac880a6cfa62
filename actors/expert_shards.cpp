// A placement changes in an order that loses no step: loaded, then served, then used.
#include "actors/expert_shards.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "actors/expert_slots.h"
#include "actors/policy/expert_eplb.h"

namespace shoal {
namespace {

std::vector<ExpertHome> homes(std::int32_t shards) {
  std::vector<ExpertHome> homes;
  for (std::int32_t shard = 0; shard < shards; ++shard) {
    homes.push_back({NodeId{}, static_cast<std::uint32_t>(shard)});
  }
  return homes;
}

}  // namespace

Result<std::vector<ExpertLayer>> even_layers(const kernels::ExpertModel& model,
                                             std::int32_t ranks,
                                             std::int32_t redundant) {
  std::vector<ExpertLayer> layers;
  for (const std::int32_t experts : model.experts) {
    const ExpertShape shape{.experts = experts,
                            .ranks = ranks,
                            .slots = (experts + ranks - 1) / ranks + redundant,
                            .node_ranks = ranks};
    if (const auto why = unplannable(shape); !why.empty()) {
      return fail(Code::kMisconfigured,
                  "experts.shards: " + std::to_string(experts) + " experts on " +
                      std::to_string(ranks) + " shards: " + std::string(why));
    }
    layers.push_back(
        {shape, eplb_global(shape, std::vector<double>(static_cast<std::size_t>(experts), 1.0))});
  }
  return layers;
}

ExpertShards::ExpertShards(const ExpertShardsSetup& setup,
                           const MakeExpertEngine& make_engine,
                           std::unique_ptr<transport::ExpertExchange> exchange,
                           transport::Scheduler executor)
    : setup_(setup),
      make_engine_(make_engine),
      exchange_(std::move(exchange)),
      executor_(std::move(executor)),
      dispatcher_(*exchange_, homes(setup.shards), executor_, {.exchange = setup.limit}) {}

Result<std::unique_ptr<ExpertShards>> ExpertShards::open(
    const ExpertShardsSetup& setup,
    const MakeExpertEngine& make_engine,
    std::unique_ptr<transport::ExpertExchange> exchange,
    transport::Scheduler executor) {
  if (setup.shards < 1 || setup.redundant < 0) {
    return fail(Code::kMisconfigured,
                "expert shards: at least one, with no fewer slots than needed");
  }
  auto self = std::unique_ptr<ExpertShards>(
      new ExpertShards(setup, make_engine, std::move(exchange), std::move(executor)));
  // What the model is, the first engine knows.
  TRY(const auto probe, make_engine({}));
  TRY(std::vector<ExpertLayer> layers, even_layers(probe->model(), setup.shards, setup.redundant));
  self->limits_.weights = setup.weights;
  self->limits_.slots = most_slots(layers);
  for (std::int32_t shard = 0; shard < setup.shards; ++shard) {
    TRY(EnginePtr engine, make_engine(self->limits_));
    self->engines_.push_back(std::move(engine));
  }
  TRY_VOID(self->place(std::move(layers)));
  for (std::int32_t shard = 0; shard < setup.shards; ++shard) {
    self->serve(static_cast<std::uint32_t>(shard), self->engines_[static_cast<std::size_t>(shard)]);
  }
  return self;
}

ExpertShards::~ExpertShards() {
  stop();
}

kernels::ExchangeRunner ExpertShards::runner() {
  return [this](kernels::Exchange& exchange, std::function<void(Result<void>)> complete) {
    dispatcher_.run(exchange, std::move(complete));
  };
}

Result<void> ExpertShards::load(kernels::ExpertEngine& engine,
                                std::uint32_t shard,
                                const std::vector<ExpertLayer>& layers,
                                Instant deadline) const {
  return load_slots(engine, {shard, limits_.slots}, layers, [this, deadline] {
    return executor_.now() > deadline;
  });
}

std::vector<ExpertShards::EnginePtr> ExpertShards::engines() const {
  const std::lock_guard lock(mutex_);
  return engines_;
}

Result<void> ExpertShards::load_all(const std::vector<EnginePtr>& engines,
                                    const std::vector<ExpertLayer>& layers,
                                    Instant deadline) const {
  for (std::size_t shard = 0; shard < engines.size(); ++shard) {
    if (engines[shard] != nullptr) {
      TRY_VOID(load(*engines[shard], static_cast<std::uint32_t>(shard), layers, deadline));
    }
  }
  return {};
}

ExpertPlacementMap ExpertShards::placement() const {
  const std::lock_guard lock(mutex_);
  return placement_;
}

Result<void> ExpertShards::place(std::vector<ExpertLayer> layers, Instant deadline) {
  const std::lock_guard changing(changing_);
  ExpertPlacementMap next{EpochId{placement_.epoch.value + 1}, std::move(layers)};
  for (std::size_t i = 0; i < next.layers.size(); ++i) {
    if (next.layers[i].shape.ranks != setup_.shards ||
        !serves_all(next.layers[i].shape, next.layers[i].expert_at)) {
      return fail(Code::kInvalid,
                  "placement of experts, layer " + std::to_string(i) + ": it does not serve all");
    }
  }
  if (!dispatcher_.is_settled()) {
    return fail(Code::kUnavailable, "steps are on the way by the placement before");
  }
  const std::vector<EnginePtr> engines = this->engines();
  if (auto loaded = load_all(engines, next.layers, deadline); !loaded) {
    // Nothing is read for what is served: it only lets go of what was loaded.
    std::ignore = load_all(engines, placement_.layers, Instant::max());
    return loaded;
  }
  for (const EnginePtr& engine : engines) {
    if (engine != nullptr) {
      engine->publish(next.epoch);
    }
  }
  TRY_VOID(dispatcher_.publish(next));
  const std::lock_guard lock(mutex_);
  placement_ = std::move(next);
  return {};
}

void ExpertShards::serve(std::uint32_t shard, const EnginePtr& engine) {
  exchange_->serve(shard, executor_, [engine](std::span<transport::ExpertCall> calls) {
    run_calls(*engine, calls);
  });
}

void ExpertShards::end(std::uint32_t shard) {
  exchange_->end(shard);
  const std::lock_guard lock(mutex_);
  engines_.at(shard) = nullptr;
}

Result<void> ExpertShards::restore(std::uint32_t shard) {
  const std::lock_guard changing(changing_);
  TRY(EnginePtr engine, make_engine_(limits_));
  TRY_VOID(load(*engine, shard, placement_.layers, Instant::max()));
  engine->publish(placement_.epoch);
  const std::lock_guard living(living_);
  {
    const std::lock_guard lock(mutex_);
    engines_.at(shard) = engine;
  }
  serve(shard, engine);
  return {};
}

Result<ExpertShardLife> ExpertShards::begin(std::uint32_t shard) {
  TRY_VOID(restore(shard));
  const std::lock_guard lock(mutex_);
  return ExpertShardLife(*this, shard, engines_.at(shard).get());
}

// Not while another life begins to serve: its shard is not to end.
void ExpertShards::end_life(std::uint32_t shard, const void* engine) {
  const std::lock_guard living(living_);
  {
    const std::lock_guard lock(mutex_);
    if (engines_.at(shard).get() != engine) {
      return;
    }
  }
  end(shard);
}

ExpertShardLife::ExpertShardLife(ExpertShards& shards, std::uint32_t shard, const void* engine)
    : shards_(&shards),
      shard_(shard),
      engine_(engine) {}

ExpertShardLife& ExpertShardLife::operator=(ExpertShardLife&& other) noexcept {
  std::swap(shards_, other.shards_);
  std::swap(shard_, other.shard_);
  std::swap(engine_, other.engine_);
  return *this;
}

ExpertShardLife::~ExpertShardLife() {
  if (shards_ != nullptr) {
    shards_->end_life(shard_, engine_);
  }
}

void ExpertShards::stop() {
  exchange_->stop();
}

kernels::ExpertEngineUse ExpertShards::use(std::uint32_t shard) const {
  const std::lock_guard lock(mutex_);
  const EnginePtr& engine = engines_.at(shard);
  return engine == nullptr ? kernels::ExpertEngineUse{} : engine->use();
}

}  // namespace shoal
