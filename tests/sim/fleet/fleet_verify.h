// What a decode group verifies and gains in a step: chances of drafts are drawn for every request
// of every rank, the planner chooses sizes from those of two steps before and fills them. That is
// done in one of many steps; until the next such step all requests of a rank go like their mean.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/policy/verify_plan.h"
#include "schemas/fleet.pb.h"
#include "schemas/units.h"
#include "tests/sim/fleet/verify_replay.h"

namespace shoal::sim {

// Of each request of a rank, in thousandths.
struct VerifiedRank {
  std::int64_t rows = 1'000;  // that it verifies: one, and its drafts
  std::int64_t gain = 1'000;  // tokens
};

class FleetVerify {
 public:
  FleetVerify(const fleet::Verify& options, const fleet::Decode& decode, DraftSource source);

  // A step of ranks with so many requests each, which takes `fixed` besides what rows cost.
  std::span<const VerifiedRank> step(std::span<const std::int64_t> requests, Nanos fixed);

 private:
  void plan(std::span<const std::int64_t> requests, Nanos fixed);
  VerifiedRank fill(const VerifyPlan& plan, std::size_t rank, std::int64_t requests);

  int every_;
  std::unique_ptr<VerifyPlanner> planner_;
  DraftSource source_;
  VerifyCosts costs_;
  std::vector<VerifiedRank> ranks_;
  int until_plan_ = 0;
};

}  // namespace shoal::sim
