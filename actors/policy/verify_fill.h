// The part of a rank in choosing what to verify: sizes come from the leader's plan, and what the
// head says now, made true by the leader's temperatures, fills them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/policy/verify_plan.h"
#include "actors/policy/verify_temperature.h"

namespace shoal {

// Of confidences as the head says them.
DraftedRequest calibrated(DraftedRequest said, const Temperatures& temperatures);

// Belongs to one thread.
class VerifyFill {
 public:
  explicit VerifyFill(const VerifyRow& row) : planner_(row.make()) {}

  // How many drafts of each request are verified, where the leader's plan says that drafts are.
  // `plan` may be of other requests than these. Rows that plan sizes keep to them: together these
  // have no more rows than it says for the rank, or one each.
  void lengths(const VerifyPlan& plan,
               std::size_t rank,
               std::span<const DraftedRequest> said,
               const Temperatures& temperatures,
               std::span<std::uint8_t> lengths);

 private:
  std::unique_ptr<VerifyPlanner> planner_;
  std::vector<DraftedRequest> calibrated_;  // kept for its memory
};

}  // namespace shoal
