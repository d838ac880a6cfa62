// The KV store loads whatever is asked for, all at once.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

// Many ask for blocks of a disk that is slow.
constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload {
  requests: 20 gap_us: 100000 texts: 3 prompt_min: 300 prompt_max: 700 answer_max: 10
  burst: 40 burst_at_ms: 6000
}
store { loading_bytes: 30000 }
fault { kind: KV_SLOW node: 1 count: 100 at_ms: 5900 for_ms: 2000 }
)";

class LoadsWithoutCeiling final : public Defect {
 public:
  LoadsWithoutCeiling()
      : Defect({"loads_without_ceiling",
                "The KV store loads whatever is asked for, all at once.",
                kScenario,
                {"within_ceilings"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.blocks = [](transport::BlockStoreLimits& limits) {
      limits.loading = transport::BlockStoreLimits{}.loading;
    };
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
