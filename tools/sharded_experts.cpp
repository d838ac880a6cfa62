// One thread runs all shards of the process: each of their loops has the compute pool to itself
// anyway.
#include "tools/sharded_experts.h"

#include <utility>

#include "tools/process_ports.h"

namespace shoal::tools {

ShardedExperts::ShardedExperts()
    : timers_(monotonic_now),
      executor_(monotonic_now),
      background_(monotonic_now) {}

Result<std::unique_ptr<ShardedExperts>> ShardedExperts::open(const config::Experts& config,
                                                             MakeExpertEngine make_engine,
                                                             const ExpertPlace& place) {
  auto self = std::unique_ptr<ShardedExperts>(new ShardedExperts());
  TRY(self->node_,
      ExpertNode::open({.config = config,
                        .make_engine = std::move(make_engine),
                        .timers = self->timers_.port(),
                        .executor = self->executor_.port(),
                        .background = self->background_.port(),
                        .topology = place.topology,
                        .self = place.self,
                        .transport = place.transport}));
  if (ExpertShards* shards = self->node_->shards()) {
    self->group_.emplace(*shards, self->background_.port());
  }
  return self;
}

}  // namespace shoal::tools
