// A node that is told to stop leaves at once.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway"
node: "gateway"
node: "router"
node: "prefill"
node: "decode"
workload { requests: 40 gap_us: 5000 answer_min: 20 answer_max: 60 }
fault { kind: DRAIN node: 0 at_ms: 120 for_ms: 1500 }
)";

class DrainDropsAStream final : public Defect {
 public:
  DrainDropsAStream()
      : Defect({"drain_drops_a_stream",
                "A node that is told to stop leaves at once.",
                kScenario,
                {"drain_finishes"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.drain = Nanos{0};
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
