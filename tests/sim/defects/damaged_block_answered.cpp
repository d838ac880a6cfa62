// The checksum of a stored block is not looked at.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
workload { requests: 60 gap_us: 150000 texts: 3 prompt_min: 200 prompt_max: 700 }
fault { kind: KV_FLIP count: 200 at_ms: 4000 }
)";

class DamagedBlockAnswered final : public StoreDefect {
 public:
  DamagedBlockAnswered()
      : StoreDefect({"damaged_block_answered",
                     "The checksum of a stored block is not looked at.",
                     kScenario}) {}

  bool trusts_records() override { return true; }
} planted;

}  // namespace
}  // namespace shoal::sim
