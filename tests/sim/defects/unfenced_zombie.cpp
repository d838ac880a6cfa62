// A life that was left out of the view stays a member for everybody who knew it.
#include <map>

#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
node: "decode"
workload { requests: 30 gap_us: 8000 answer_min: 20 answer_max: 60 }
fault { kind: PAUSE node: 2 at_ms: 100 for_ms: 2500 }
)";

class UnfencedZombie final : public Defect {
 public:
  UnfencedZombie()
      : Defect({"unfenced_zombie",
                "A life that was left out of the view stays a member for everybody who knew it.",
                kScenario,
                {"full_service_returns", "honest_health", "one_view_an_epoch"}}) {}

  void begin() override { seen_.clear(); }

  const Member* find_member(NodeId node, const Member* found) override {
    if (found != nullptr) {
      return &(seen_[node] = *found);
    }
    const auto known = seen_.find(node);
    return known == seen_.end() ? nullptr : &known->second;
  }

 private:
  std::map<NodeId, Member> seen_;
} planted;

}  // namespace
}  // namespace shoal::sim
