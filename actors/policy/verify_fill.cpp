// Calibrates, then fills by the row.
#include "actors/policy/verify_fill.h"

#include "schemas/check.h"

namespace shoal {

DraftedRequest calibrated(const SaidDrafts& said, const Temperatures& temperatures) {
  DraftedRequest request{.drafts = said.drafts, .slack = said.slack};
  for (std::size_t place = 0; place < temperatures.size(); ++place) {
    request.confidence[place] = tempered_logit(said.logits[place], temperatures[place]);
  }
  return request;
}

void VerifyFill::lengths(const VerifyPlan& plan,
                         std::size_t rank,
                         std::span<const SaidDrafts> requests,
                         const Temperatures& temperatures,
                         std::span<std::uint8_t> lengths) {
  CHECK(rank < plan.tokens.size());
  calibrated_.clear();
  for (const SaidDrafts& said : requests) {
    calibrated_.push_back(calibrated(said, temperatures));
  }
  planner_->fill(plan, rank, calibrated_, lengths);
}

}  // namespace shoal
