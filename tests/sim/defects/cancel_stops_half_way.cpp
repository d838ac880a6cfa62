// A cancelled answer is not given up by the decode group.
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"
#include "tests/sim/defects/frames.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
device { blocks: 512 }
workload { requests: 6 answer_min: 3000 answer_max: 6000 prompt_max: 30 leave_percent: 100 }
probes: 0
)";

class CancelStopsHalfWay final : public LinkDefect {
 public:
  CancelStopsHalfWay()
      : LinkDefect({"cancel_stops_half_way",
                    "A cancelled answer is not given up by the decode group.",
                    kScenario,
                    {"leases_return"}}) {}

 private:
  std::vector<std::string> instead(NodeId, NodeId to, std::string bytes) override {
    constexpr NodeId kDecode{2};
    if (to == kDecode && message_in<ReleaseAttempt>(bytes)) {
      return {};
    }
    return {std::move(bytes)};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
