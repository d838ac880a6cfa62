// One thread runs all shards of the process: each of their loops has the compute pool to itself
// anyway.
#include "tools/sharded_experts.h"

#include <chrono>
#include <utility>

#include "tools/process_ports.h"
#include "transport/registry.h"

namespace shoal::tools {

ShardedExperts::ShardedExperts()
    : timers_(monotonic_now),
      executor_(monotonic_now),
      background_(monotonic_now) {}

Result<std::unique_ptr<ShardedExperts>> ShardedExperts::open(const config::Experts& config,
                                                             kernels::Device& device) {
  auto self = std::unique_ptr<ShardedExperts>(new ShardedExperts());
  transport::ExpertLimits limits;
  limits.in_flight = Bytes{config.in_flight_bytes()};
  limits.waiting = limits.in_flight;
  TRY(auto exchange,
      transport::open_expert_exchange(
          "shards", {.self = {}, .timers = self->timers_.port(), .limits = limits}));
  TRY(self->shards_,
      ExpertShards::open(
          {.shards = config.shards(),
           .redundant = config.redundant(),
           .weights = Bytes{config.weights_bytes()},
           .limit = std::chrono::milliseconds(config.exchange_ms())},
          [&device](const kernels::ExpertEngineLimits& engine) {
            return device.make_expert_engine(engine);
          },
          std::move(exchange),
          self->executor_.port()));
  self->group_.emplace(*self->shards_, self->background_.port());
  return self;
}

}  // namespace shoal::tools
