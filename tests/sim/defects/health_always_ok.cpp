// Health says ok because the process answers.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 30 gap_us: 3000 }
fault { kind: DEVICE_STUCK node: 2 at_ms: 60 for_ms: 2500 }
config { supervisor { stall_ms: 300 } }
)";

class HealthAlwaysOk final : public Defect {
 public:
  HealthAlwaysOk()
      : Defect({"health_always_ok",
                "Health says ok because the process answers.",
                kScenario,
                {"honest_health"}}) {}

  std::optional<Health> health_of(const PartPulse&) override {
    return Health{HealthVerdict::kOk, {}};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
