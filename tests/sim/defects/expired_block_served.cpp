// Blocks are kept for weeks where their class says days.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "prefill"
node: "decode"
workload { requests: 120 gap_us: 250000 texts: 40 prompt_min: 300 prompt_max: 700 }
store { hours: 100 }
fault { kind: WALL_JUMP node: 0 count: 150 at_ms: 4000 for_ms: 60000 }
fault { kind: WALL_JUMP node: 1 count: 150 at_ms: 4000 for_ms: 60000 }
fault { kind: WALL_JUMP node: 2 count: 150 at_ms: 4000 for_ms: 60000 }
fault { kind: WALL_JUMP node: 3 count: 150 at_ms: 4000 for_ms: 60000 }
)";

class ExpiredBlockServed final : public Defect {
 public:
  ExpiredBlockServed()
      : Defect({"expired_block_served",
                "Blocks are kept for weeks where their class says days.",
                kScenario,
                {"blocks_are_true"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.blocks = [](transport::BlockStoreLimits& limits) {
      for (std::int64_t& hours : limits.hours) {
        hours *= 7;
      }
    };
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
