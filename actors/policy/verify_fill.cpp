// Calibrates, then fills by the row.
#include "actors/policy/verify_fill.h"

#include "schemas/check.h"

namespace shoal {

DraftedRequest calibrated(DraftedRequest said, const Temperatures& temperatures) {
  for (std::size_t place = 0; place < temperatures.size(); ++place) {
    said.confidence[place] = tempered(said.confidence[place], temperatures[place]);
  }
  return said;
}

void VerifyFill::lengths(const VerifyPlan& plan,
                         std::size_t rank,
                         std::span<const DraftedRequest> said,
                         const Temperatures& temperatures,
                         std::span<std::uint8_t> lengths) {
  CHECK(rank < plan.tokens.size());
  calibrated_.clear();
  for (const DraftedRequest& request : said) {
    calibrated_.push_back(calibrated(request, temperatures));
  }
  planner_->fill(plan, rank, calibrated_, lengths);
}

}  // namespace shoal
