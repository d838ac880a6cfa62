// Blocks are acknowledged before the medium has them.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "prefill"
node: "decode"
workload { requests: 40 gap_us: 150000 texts: 30 prompt_min: 200 prompt_max: 700 }
store { }
fault { kind: POWER_LOSS node: 1 at_ms: 3000 for_ms: 300 }
)";

class DurableWithoutSync final : public Defect {
 public:
  DurableWithoutSync()
      : Defect({"durable_without_sync",
                "Blocks are acknowledged before the medium has them.",
                kScenario,
                {"durable_blocks_stay"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.skips_sync = true;
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
