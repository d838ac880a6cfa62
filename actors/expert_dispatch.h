// How a device's exchange port meets the exchange of the transport: each row of a layer goes once
// to every shard that owns some of its experts, and what comes back is put into the step's buffers.
// Tokens of a replicated expert are split over its replicas by the counts of the step
// (policy/expert_split).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/policy/expert_placement.h"
#include "actors/policy/expert_split.h"
#include "kernels/launch_queue.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/expert_exchange.h"

namespace shoal {

struct ExpertLayer {
  ExpertShape shape;
  SlotExperts expert_at;
  // What each expert is expected to get, in any unit, for the split over replicas; none: equally.
  std::vector<double> loads{};
};

// Where all experts are. A rank is a shard, wherever it runs.
struct ExpertPlacementMap {
  EpochId epoch;
  std::vector<ExpertLayer> layers;  // the DSpark stages behind the backbone's
};

// What a layer was given since the start.
struct ExpertTraffic {
  std::int64_t exchanges = 0;
  std::vector<std::int64_t> experts;  // rows of each
  std::vector<std::int64_t> ranks;    // of each, a row once for each of its experts
};

// Of one rank.
struct ExpertHome {
  NodeId node;
  std::uint32_t shard = 0;
};

// Any thread. The exchange outlives it.
class ExpertDispatcher {
 public:
  // `limit`: longest time of one layer's exchange.
  ExpertDispatcher(transport::ExpertExchange& exchange,
                   std::vector<ExpertHome> ranks,
                   std::function<Instant()> now,
                   Nanos limit);
  ~ExpertDispatcher();

  // In force for exchanges that begin later; those on the way end by the placement they began with.
  // kInvalid: an expert has no slot, or a shape has other ranks.
  Result<void> publish(ExpertPlacementMap map);

  // Calls `complete` once: at once when it cannot be sent, or from the thread that ends it.
  void run(kernels::Exchange& exchange, std::function<void(Result<void>)> complete);

  // No exchange is on the way by a placement before the one in force: shards serve two.
  bool is_settled() const;

  // Rows that each expert of each layer was given since the start.
  std::vector<std::vector<std::int64_t>> routed() const;
  // By layer.
  std::vector<ExpertTraffic> traffic() const;

 private:
  struct Routing;
  struct Plan;

  Plan plan(const kernels::Exchange& exchange);

  transport::ExpertExchange& exchange_;
  const std::vector<ExpertHome> ranks_;
  const std::function<Instant()> now_;
  const Nanos limit_;
  mutable std::mutex mutex_;
  std::shared_ptr<Routing> routing_;  // null: nothing was published; exchanges hold theirs
  std::weak_ptr<Routing> before_;     // the placement before
  std::vector<ExpertTraffic> traffic_;
};

}  // namespace shoal
