// An engine is made when the first placement says how many slots it needs.
#include "actors/expert_host.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
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

EpochId ExpertHost::served(std::uint32_t shard) const {
  const std::lock_guard lock(mutex_);
  return places_.at(shard).served;
}

ExpertHostMoves ExpertHost::moves() const {
  const std::lock_guard lock(mutex_);
  return moves_;
}

int ExpertHost::loading() const {
  const std::lock_guard lock(mutex_);
  return loading_;
}

void ExpertHost::begin_load(bool is_move) {
  const std::lock_guard lock(mutex_);
  loading_ += is_move ? 1 : 0;
}

void ExpertHost::end_load(bool is_move, const ExpertHostMoves& moves) {
  const std::lock_guard lock(mutex_);
  loading_ -= is_move ? 1 : 0;
  moves_.experts += moves.experts;
  moves_.bytes = moves_.bytes + moves.bytes;
  moves_.time += moves.time;
  moves_.failed += moves.failed;
}

void ExpertHost::serve(const HostedShard& shard, EpochId epoch, bool is_first) {
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(shard.shard_);
  if (place.life != shard.life_) {
    return;
  }
  place.engine = shard.engine_;
  place.served = epoch;
  if (is_first) {
    exchange_.serve(
        shard.shard_, executor_, [engine = shard.engine_](std::span<transport::ExpertCall> calls) {
          run_calls(*engine, calls);
        });
  }
}

void ExpertHost::end(const HostedShard& shard) {
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(shard.shard_);
  if (place.life == shard.life_) {
    place.served = EpochId{};
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

Result<void> HostedShard::prepare(const ExpertPlacementMap& map) {
  if (engine_ == nullptr) {
    slots_ = most_slots(map.layers);
    TRY(engine_, host_.make_engine_({.slots = slots_, .weights = host_.setup_.weights}));
  }
  return check(map);
}

// Experts that it does not serve, each once.
std::int64_t HostedShard::brought(const ExpertPlacementMap& map) const {
  std::int64_t brought = 0;
  const auto held_by = [rank = static_cast<std::int32_t>(slots().rank)](const ExpertLayer& layer) {
    const auto first = layer.expert_at.begin() + std::ptrdiff_t{rank} * layer.shape.slots;
    std::set<std::int32_t> held(first, first + layer.shape.slots);
    held.erase(kEmptySlot);
    return held;
  };
  for (std::size_t i = 0; i < map.layers.size(); ++i) {
    const std::set<std::int32_t> before =
        served_ == nullptr ? std::set<std::int32_t>() : held_by(served_->layers[i]);
    const std::set<std::int32_t> held = held_by(map.layers[i]);
    brought += std::ranges::count_if(
        held, [&before](std::int32_t expert) { return !before.contains(expert); });
  }
  return brought;
}

void HostedShard::load(std::shared_ptr<const ExpertPlacementMap> map,
                       std::shared_ptr<const std::atomic<bool>> gives_up,
                       std::function<void(Result<void>)> done) {
  Result<void> prepared = prepare(*map);
  const std::int64_t experts = prepared ? brought(*map) : 0;
  const bool is_move = served_ != nullptr;
  host_.begin_load(is_move);
  host_.setup_.background.defer(
      Nanos{0},
      [engine = engine_,
       slots = slots(),
       map = std::move(map),
       gives_up = std::move(gives_up),
       done = std::move(done),
       prepared = std::move(prepared),
       experts,
       is_move,
       host = &host_] {
        const Instant began = host->setup_.background.now();
        Result<void> loaded = prepared;
        if (loaded) {
          loaded = load_slots(
              *engine, slots, map->layers, [flag = gives_up.get()] { return flag->load(); });
        }
        const kernels::ExpertEngineUse use =
            engine == nullptr ? kernels::ExpertEngineUse{} : engine->use();
        const std::int64_t mean = use.experts == 0 ? 0 : use.weights.value / use.experts;
        host->end_load(is_move,
                       {.experts = loaded ? experts : 0,
                        .bytes = Bytes{loaded ? experts * mean : 0},
                        .time = host->setup_.background.now() - began,
                        .failed = loaded ? 0 : 1});
        done(std::move(loaded));
      });
}

void HostedShard::serve(std::shared_ptr<const ExpertPlacementMap> map) {
  engine_->publish(map->epoch);
  const bool is_first = served_ == nullptr;
  served_ = std::move(map);
  host_.serve(*this, served_->epoch, is_first);
}

// Nothing is read for what is served.
void HostedShard::drop() {
  if (served_ == nullptr) {
    engine_ = nullptr;
  } else {
    std::ignore = load_slots(*engine_, slots(), served_->layers);
  }
}

void HostedShard::retire() {
  if (engine_ != nullptr) {
    engine_->retire();
  }
}

kernels::ExpertEngineUse HostedShard::use() const {
  return engine_ == nullptr ? kernels::ExpertEngineUse{} : engine_->use();
}

}  // namespace shoal
