// What the sources of rows and the cluster's balancer of experts say to each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/expert_dispatch.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

// Of the last plan that a source was given.
enum class ExpertPlanState : std::uint8_t { kNone, kUnderWay, kInForce, kFailed };

// How a source is, and what its layers were given since its last report.
struct ExpertReport {
  NodeId node;
  EpochId epoch;                                    // in force there; 0: none
  std::shared_ptr<const ExpertPlacementMap> map{};  // of it; null: the balancer has it
  bool settled = false;                             // no step is on the way by the placement before
  bool whole = false;                               // all shards serve it, as far as is known
  std::vector<ExpertTraffic> traffic{};
  Bytes expert{0};         // bytes of one, on average
  std::uint64_t plan = 0;  // the last one given to it; 0: none
  ExpertPlanState plan_state = ExpertPlanState::kNone;
  std::string reason{};  // why it failed
};

// A placement for a source to bring about; `plan` is of that alone.
struct ExpertOrder {
  std::uint64_t plan = 0;
  EpochId base;  // what it was planned from
  std::vector<ExpertLayer> layers;
  Nanos limit{0};  // later it is given up
};

}  // namespace shoal
