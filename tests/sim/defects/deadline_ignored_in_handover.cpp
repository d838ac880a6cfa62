// A hand-over has no time limit of its own.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 20 gap_us: 5000 }
fault { kind: DROP_BULK node: 1 peer: 2 at_ms: 40 for_ms: 1000 }
config { request { handing_over_ms: 800 attempts: 20 } }
settle_s: 20
)";

class DeadlineIgnoredInHandover final : public Defect {
 public:
  DeadlineIgnoredInHandover()
      : Defect({"deadline_ignored_in_handover",
                "A hand-over has no time limit of its own.",
                kScenario,
                {"full_service_returns"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.configure = [](Config& config) {
      config.mutable_request()->set_handing_over_ms(config.request().deadline_ms());
    };
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
