// The fill is asked last, and can only take away.
#include "kernels/verified_drafts.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal::kernels {

Position room_of(const RowRun& run, Position max_positions) {
  return std::min<Position>(static_cast<Position>(run.blocks.size()) * kBlockTokens, max_positions);
}

std::vector<std::size_t> verified_drafts(const StepPlan& plan,
                                         Position max_positions,
                                         std::span<const std::span<const float>> confidences) {
  std::vector<std::size_t> lengths;
  std::vector<DraftedRun> drafted;
  for (std::size_t r = 0; r < plan.runs.size(); ++r) {
    const RowRun& run = plan.runs[r];
    const Position room = room_of(run, max_positions) - run.first - run.rows();
    const Position most = std::min<Position>({run.verifies, std::ssize(confidences[r]), room});
    lengths.push_back(static_cast<std::size_t>(std::max<Position>(most, 0)));
    if (lengths.back() > 0) {
      drafted.push_back({r, confidences[r].first(lengths.back())});
    }
  }
  if (plan.fill == nullptr || drafted.empty()) {
    return lengths;
  }
  const std::vector<int> filled = plan.fill->lengths(drafted);
  CHECK(filled.size() == drafted.size());
  for (std::size_t i = 0; i < filled.size(); ++i) {
    std::size_t& length = lengths[drafted[i].run];
    length = std::min(length, static_cast<std::size_t>(std::max(filled[i], 0)));
  }
  return lengths;
}

}  // namespace shoal::kernels
