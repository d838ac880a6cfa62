// Loading reads weights: no actor waits for that.
#include "actors/shard_group.h"

#include <utility>

namespace shoal {

ShardGroup::ShardGroup(ExpertShards& shards, transport::Scheduler background)
    : shards_(shards),
      background_(std::move(background)) {}

Bytes ShardGroup::expert_bytes() const {
  kernels::ExpertEngineUse all;
  for (std::uint32_t shard = 0; shard < shards_.count(); ++shard) {
    const kernels::ExpertEngineUse use = shards_.use(shard);
    all.experts += use.experts;
    all.weights = all.weights + use.weights;
  }
  return Bytes{all.experts == 0 ? 0 : all.weights.value / all.experts};
}

void ShardGroup::place(std::vector<ExpertLayer> layers,
                       Instant deadline,
                       std::function<void(Result<EpochId>)> done) {
  background_.defer(Nanos{0},
                    [this, deadline, layers = std::move(layers), done = std::move(done)]() mutable {
                      done(shards_.place(std::move(layers), deadline).map([this] {
                        return shards_.placement().epoch;
                      }));
                    });
}

}  // namespace shoal
