// Health does not look at what the KV store says of itself.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 40 gap_us: 150000 texts: 3 prompt_min: 200 prompt_max: 700 }
store { }
fault { kind: KV_FULL node: 1 at_ms: 1000 for_ms: 5000 }
)";

class FullStoreSaysOk final : public Defect {
 public:
  FullStoreSaysOk()
      : Defect({"full_store_says_ok",
                "Health does not look at what the KV store says of itself.",
                kScenario,
                {"honest_health"}}) {}

  std::optional<Health> health_of(const PartPulse& pulse) override {
    return pulse.trouble.empty() ? std::nullopt : std::optional(Health{HealthVerdict::kOk, {}});
  }
} planted;

}  // namespace
}  // namespace shoal::sim
