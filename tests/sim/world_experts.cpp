// Devices of each process, and where their experts are.
#include <stdexcept>
#include <utility>

#include "tests/sim/world.h"

namespace shoal::sim {

// Their experts are their own, on shards of the process, or elsewhere.
void World::open_devices(NodeId node, Life& life) {
  const NodeRoles& roles = hosts_[node.value].roles;
  const bool yields =
      roles.has_device() && (has_expert_nodes(topology_) || node_config_.experts().shards() > 0);
  for (int rank = 0; rank < setup_.ranks; ++rank) {
    if (!yields && !roles.experts) {
      life.devices.push_back(std::make_unique<Device>(
          timeline_, open_backend(setup_.model, setup_.size), setup_.cost));
      continue;
    }
    life.engines.push_back(open_cpu_device(setup_.model, setup_.size, yields));
    if (life.experts == nullptr) {
      life.experts = open_experts(node, life);
    }
    const auto& device = life.engines.back();
    life.devices.push_back(
        std::make_unique<Device>(timeline_,
                                 std::shared_ptr<kernels::Backend>(device, &device->backend()),
                                 setup_.cost,
                                 yields ? life.experts->runner() : kernels::ExchangeRunner()));
  }
}

// Loading takes time, so that a part can die under it.
transport::Scheduler World::background(const Life& life) {
  return {[clock = life.clock.get()] { return clock->now(); },
          [this](Nanos delay, std::function<void()> run) {
            const auto takes = static_cast<std::int64_t>(2'000'000 + random_() % 40'000'000);
            timeline_.after(delay + Nanos{takes}, std::move(run));
          }};
}

ExpertBalanceParts World::expert_balance(NodeId node, Life& life) {
  if (setup_.experts) {
    return setup_.experts(node,
                          {[clock = life.clock.get()] { return clock->now(); },
                           [this](Nanos delay, std::function<void()> run) {
                             timeline_.after(delay, std::move(run));
                           }});
  }
  if (life.experts != nullptr && life.experts->shards() != nullptr) {
    life.group = std::make_unique<ShardGroup>(*life.experts->shards(), background(life));
  }
  return {life.group.get(), background(life)};
}

// Runs of shards take time, so that one can die under a step.
std::unique_ptr<ExpertNode> World::open_experts(NodeId node, Life& life) {
  const transport::Scheduler time{[clock = life.clock.get()] { return clock->now(); },
                                  timeline_.scheduler().defer};
  const auto later = [this](Nanos delay, std::function<void()> run) {
    timeline_.after(delay + Nanos{static_cast<std::int64_t>(10'000 + random_() % 100'000)},
                    std::move(run));
  };
  auto experts = ExpertNode::open(
      {.config = node_config_.experts(),
       .make_engine = [device = life.engines.front()](
                          const auto& limits) { return device->make_expert_engine(limits); },
       .timers = time,
       .executor = {time.now, later},
       .background = background(life),
       .topology = &topology_,
       .self = node,
       .transport = life.transport.get()});
  if (!experts) {
    throw std::runtime_error(experts.error().message);
  }
  return *std::move(experts);
}

}  // namespace shoal::sim
