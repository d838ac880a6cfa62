// A group of expert shards as its balancer sees it: what they were given, and where experts are.
#pragma once

#include <functional>
#include <vector>

#include "actors/expert_dispatch.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/scheduler.h"

namespace shoal {

// Any thread; no call waits for weights.
class ExpertGroup {
 public:
  ExpertGroup() = default;
  ExpertGroup(const ExpertGroup&) = delete;
  ExpertGroup& operator=(const ExpertGroup&) = delete;
  virtual ~ExpertGroup() = default;

  // By layer, since the start.
  virtual std::vector<ExpertTraffic> traffic() const = 0;

  virtual ExpertPlacementMap placement() const = 0;

  // A placement can be begun: nothing is under way, and nobody uses one before the one in force.
  virtual bool is_ready() const { return true; }

  // Of an expert, on average.
  virtual Bytes expert_bytes() const = 0;

  // Loads what is new while steps go on, then puts it in force. `done` is called at most once, from
  // any thread, with the epoch. An error, or no end by `deadline`: what was in force still is.
  virtual void place(std::vector<ExpertLayer> layers,
                     Instant deadline,
                     std::function<void(Result<EpochId>)> done) = 0;
};

// Of a node; all of it outlives the node and what it deferred.
struct ExpertBalanceParts {
  ExpertGroup* group = nullptr;       // null: there are no experts to balance
  transport::Scheduler background{};  // plans run here, which may take as long as a step
};

}  // namespace shoal
