// How a device's exchange port meets the exchange of the transport: each row of a layer goes once
// to every shard that owns some of its experts, and what comes back is put into the step's buffers.
// Tokens of a replicated expert are split over its replicas by the counts of the step
// (policy/expert_split).
//
// Ranks can be away: what their replicas elsewhere hold goes on there. A layer with an expert that
// has no slot left waits, without a thread, or is refused at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "actors/policy/expert_placement.h"
#include "actors/policy/expert_split.h"
#include "kernels/launch_queue.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/expert_exchange.h"
#include "transport/scheduler.h"

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

struct ExpertDispatchLimits {
  Nanos exchange{std::chrono::seconds(10)};  // longest time of one layer's, and of its wait
  Bytes message{16LL << 20};                 // of one part: longer ones are several
  bool waits = false;                        // for ranks that are away, and for the first placement
};

// Any thread. The exchange outlives it, and so do the timers what it is called for.
class ExpertDispatcher {
 public:
  ExpertDispatcher(transport::ExpertExchange& exchange,
                   std::vector<ExpertHome> ranks,
                   transport::Scheduler timers,
                   const ExpertDispatchLimits& limits);
  ~ExpertDispatcher();

  // In force for exchanges that begin later; those on the way end by the placement they began with.
  // kInvalid: an expert has no slot, or a shape has other ranks.
  Result<void> publish(ExpertPlacementMap map);
  // By rank; of the placement in force and those after it.
  void set_away(std::vector<bool> away);
  // Sends what waits and can be sent by now.
  void go_on();

  // Calls `complete` once: at once when it cannot be sent, or from the thread that ends it.
  void run(kernels::Exchange& exchange, std::function<void(Result<void>)> complete);
  // Whatever waits fails with kUnavailable, and whatever is run later.
  void stop();

  // No exchange is on the way by a placement before the one in force: shards serve two.
  bool is_settled() const;

  // Rows that each expert of each layer was given since the start.
  std::vector<std::vector<std::int64_t>> routed() const;
  // By layer.
  std::vector<ExpertTraffic> traffic() const;

 private:
  // A placement without ranks that are away, and what is derived from it once. Splits are not for
  // several threads: under the lock.
  struct Routing {
    struct Layer {
      Layer(const ExpertLayer& layer, const SlotExperts& here);

      ExpertShape shape;
      bool serves = false;  // all experts; otherwise what follows is not there
      std::optional<ReplicaIndex> replicas;
      std::unique_ptr<ExpertSplit> split;
    };

    Routing(const ExpertPlacementMap& map, const std::vector<bool>& away);

    EpochId epoch;
    std::vector<Layer> layers;
  };

  // What goes to the ranks, to each in as many parts as it takes.
  struct Plan {
    struct Part {
      std::size_t rank = 0;
      std::vector<std::int64_t> rows{};   // of the exchange, each once
      std::vector<std::int64_t> pairs{};  // row * top_k + choice
      std::vector<std::int32_t> row{};    // of each pair, in `rows`
      std::vector<std::int32_t> slot{};   // of each pair, of the rank
    };

    std::shared_ptr<const ExpertPlacementMap> map;
    std::vector<Part> parts;
  };

  struct Waiting {
    kernels::Exchange* exchange = nullptr;
    std::function<void(Result<void>)> complete;
    Instant due;
  };

  // Shared with timers, which may run later than the dispatcher lives.
  struct State {
    std::mutex mutex;
    std::shared_ptr<const ExpertPlacementMap>
        map;  // null: nothing was published; exchanges hold theirs
    std::weak_ptr<const ExpertPlacementMap> before;  // the placement before
    std::shared_ptr<Routing> whole;                  // with all ranks
    std::shared_ptr<Routing> routing;                // in force; without those that are away
    std::vector<bool> away;
    std::vector<Waiting> waiting;
    std::vector<ExpertTraffic> traffic;
    bool stopped = false;
  };

  // Nothing: the exchange waits now, or was refused.
  std::optional<Plan> plan(kernels::Exchange& exchange,
                           std::function<void(Result<void>)>& complete);
  bool waits(kernels::Exchange& exchange, std::function<void(Result<void>)>& complete);
  static std::vector<std::int32_t> count_rows(const kernels::Exchange& exchange,
                                              ExpertTraffic& traffic);
  std::vector<Plan::Part> parts_of(Routing::Layer& layer,
                                   std::span<const std::int32_t> counts,
                                   const kernels::Exchange& exchange) const;
  bool fits_one_more(const Plan::Part& part, std::int64_t dim) const;
  void route(State& state) const;
  static void expire(State& state, Instant now);

  transport::ExpertExchange& exchange_;
  const std::vector<ExpertHome> ranks_;
  const transport::Scheduler timers_;
  const ExpertDispatchLimits limits_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace shoal
