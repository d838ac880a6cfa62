// Confidences go by as they were said; whoever decides makes them true.
#include "actors/step_drafts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/policy/verify_fill.h"

namespace shoal {
namespace {

class StepFill final : public kernels::DraftFill {
 public:
  StepFill(const VerifyRow& row,
           std::shared_ptr<const VerifyPlan> sizes,
           std::uint32_t rank,
           const Temperatures& temperatures)
      : row_(row),
        sizes_(std::move(sizes)),
        rank_(rank),
        temperatures_(temperatures) {}

  std::vector<int> lengths(std::span<const kernels::DraftedRun> runs) const override {
    std::vector<DraftedRequest> said;
    for (const kernels::DraftedRun& run : runs) {
      DraftedRequest& drafts = said.emplace_back();
      drafts.drafts = static_cast<int>(std::min(run.confidence.size(), drafts.confidence.size()));
      std::copy_n(run.confidence.begin(), drafts.drafts, drafts.confidence.begin());
    }
    std::vector<std::uint8_t> lengths(said.size(), 0);
    VerifyFill(row_).lengths(*sizes_, rank_, said, temperatures_, lengths);
    return {lengths.begin(), lengths.end()};
  }

 private:
  const VerifyRow& row_;
  std::shared_ptr<const VerifyPlan> sizes_;
  std::uint32_t rank_;
  Temperatures temperatures_;
};

}  // namespace

std::shared_ptr<const kernels::DraftFill> draft_fill(const VerifyRow& row,
                                                     std::shared_ptr<const VerifyPlan> sizes,
                                                     std::uint32_t rank,
                                                     const Temperatures& temperatures) {
  return std::make_shared<StepFill>(row, std::move(sizes), rank, temperatures);
}

RankDrafts rank_drafts(const StepTally& tally,
                       bool feeds_drafts,
                       Nanos compute,
                       const Temperatures& temperatures) {
  RankDrafts drafts{.made = {},
                    .requests = tally.work.rows,
                    .rows = tally.rows,
                    .drafted = tally.drafted,
                    .feeds = feeds_drafts,
                    .compute = compute,
                    .outcomes = tally.outcomes};
  for (const DraftedRequest& made : tally.made) {
    drafts.made.add(calibrated(made, temperatures));
  }
  return drafts;
}

}  // namespace shoal
