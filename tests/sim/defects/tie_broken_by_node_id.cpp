// Of equal decode ranks the first one gets everything.
#include <cstddef>
#include <span>

#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
node: "decode"
workload { requests: 5 }
probes: 24
)";

class TieBrokenByNodeId final : public Defect {
 public:
  TieBrokenByNodeId()
      : Defect({"tie_broken_by_node_id",
                "Of equal decode ranks the first one gets everything.",
                kScenario,
                {"no_favourite"}}) {}

  std::optional<DecodeChoice> pick_least(std::span<const DecodeRank> ranks,
                                         const DecodeNeed& need,
                                         std::int64_t max_batch) override {
    std::optional<DecodeChoice> first;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const DecodeRank& rank = ranks[r];
      if (rank.alive && rank.live < max_batch && fits(rank.room, need.blocks) &&
          (!first || rank.live < ranks[first->rank].live)) {
        first = DecodeChoice{r, Nanos{0}};
      }
    }
    return first;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
