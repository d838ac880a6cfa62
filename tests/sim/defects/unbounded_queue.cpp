// Queues take whatever comes.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 20 gap_us: 5000 burst: 300 burst_at_ms: 50 answer_max: 10 prompt_max: 60 }
config { prefill { queue: 40 } request { ceiling: 200 } }
)";

class UnboundedQueue final : public Defect {
 public:
  UnboundedQueue()
      : Defect({"unbounded_queue", "Queues take whatever comes.", kScenario, {"within_ceilings"}}) {
  }

  Tamper tamper() override {
    Tamper tamper;
    tamper.configure = [](Config& config) {
      config.mutable_prefill()->clear_queue();
      config.mutable_request()->clear_ceiling();
    };
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
