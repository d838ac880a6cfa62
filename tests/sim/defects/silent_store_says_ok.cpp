// Health does not look at what a KV store says of a disk that answers nothing.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 10 gap_us: 150000 texts: 3 prompt_min: 200 prompt_max: 700 }
store { }
fault { kind: KV_HANG node: 1 at_ms: 1000 for_ms: 12000 }
)";

class SilentStoreSaysOk final : public Defect {
 public:
  SilentStoreSaysOk()
      : Defect({"silent_store_says_ok",
                "Health does not look at what a KV store says of a disk that answers nothing.",
                kScenario,
                {"honest_health"}}) {}

  std::optional<Health> health_of(const PartPulse& pulse) override {
    return pulse.trouble.empty() ? std::nullopt : std::optional(Health{HealthVerdict::kOk, {}});
  }
} planted;

}  // namespace
}  // namespace shoal::sim
