// An engine is made when the first placement says how many slots it needs.
#include "actors/expert_host.h"

#include <string>
#include <utility>

namespace shoal {

std::vector<ExpertHome> expert_ranks(const Topology& topology) {
  std::vector<ExpertHome> ranks;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    for (std::uint32_t shard = 0; shard < topology.nodes[node].expert_shards; ++shard) {
      ranks.push_back({NodeId{node}, shard});
    }
  }
  return ranks;
}

ExpertHost::ExpertHost(const ExpertHostSetup& setup,
                       MakeExpertEngine make_engine,
                       transport::ExpertExchange& exchange,
                       transport::Scheduler executor)
    : setup_(setup),
      make_engine_(std::move(make_engine)),
      exchange_(exchange),
      executor_(std::move(executor)),
      places_(setup.shards) {}

std::unique_ptr<HostedShard> ExpertHost::begin(std::uint32_t shard) {
  const std::lock_guard lock(mutex_);
  exchange_.end(shard);
  return std::unique_ptr<HostedShard>(new HostedShard(*this, shard, ++places_.at(shard).life));
}

kernels::ExpertEngineUse ExpertHost::use(std::uint32_t shard) const {
  const std::lock_guard lock(mutex_);
  const auto engine = places_.at(shard).engine.lock();
  return engine == nullptr ? kernels::ExpertEngineUse{} : engine->use();
}

void ExpertHost::serve(const HostedShard& shard) {
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(shard.shard_);
  if (place.life == shard.life_) {
    place.engine = shard.engine_;
    exchange_.serve(
        shard.shard_, executor_, [engine = shard.engine_](std::span<transport::ExpertCall> calls) {
          run_calls(*engine, calls);
        });
  }
}

void ExpertHost::end(const HostedShard& shard) {
  const std::lock_guard lock(mutex_);
  if (places_.at(shard.shard_).life == shard.life_) {
    exchange_.end(shard.shard_);
  }
}

HostedShard::HostedShard(ExpertHost& host, std::uint32_t shard, std::uint64_t life)
    : host_(host),
      shard_(shard),
      life_(life) {}

HostedShard::~HostedShard() {
  host_.end(*this);
}

Result<void> HostedShard::check(const ExpertPlacementMap& map) const {
  const std::vector<std::int32_t>& experts = engine_->model().experts;
  bool fits = map.layers.size() == experts.size();
  for (std::size_t i = 0; fits && i < experts.size(); ++i) {
    const ExpertShape& shape = map.layers[i].shape;
    fits = shape.experts == experts[i] &&
           host_.setup_.first_rank + shard_ < static_cast<std::uint32_t>(shape.ranks) &&
           std::ssize(map.layers[i].expert_at) == shape.all_slots();
  }
  if (!fits) {
    return fail(Code::kInvalid,
                "a placement of experts that is of another model or topology: give all nodes the "
                "same files");
  }
  return {};
}

Result<void> HostedShard::hold(const ExpertPlacementMap& map) {
  if (engine_ == nullptr) {
    slots_ = most_slots(map.layers);
    TRY(engine_, host_.make_engine_({.slots = slots_, .weights = host_.setup_.weights}));
  }
  TRY_VOID(check(map));
  return load_slots(*engine_, {host_.setup_.first_rank + shard_, slots_}, map.layers);
}

void HostedShard::serve(EpochId epoch) {
  engine_->publish(epoch);
  if (!std::exchange(at_exchange_, true)) {
    host_.serve(*this);
  }
}

kernels::ExpertEngineUse HostedShard::use() const {
  return engine_ == nullptr ? kernels::ExpertEngineUse{} : engine_->use();
}

}  // namespace shoal
