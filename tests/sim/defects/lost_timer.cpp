// A stream never looks at the clock: what was lost is waited for without end.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway"
node: "router"
node: "prefill"
node: "decode"
workload { requests: 60 gap_us: 8000 answer_min: 10 answer_max: 40 }
fault { kind: RESET node: 0 peer: 3 at_ms: 100 }
fault { kind: RESET node: 0 peer: 3 at_ms: 220 }
fault { kind: RESET node: 0 peer: 3 at_ms: 340 }
fault { kind: RESET node: 0 peer: 3 at_ms: 460 }
config { request { attempts: 50 } }
)";

class LostTimer final : public Defect {
 public:
  LostTimer()
      : Defect({"lost_timer",
                "A stream never looks at the clock: what was lost is waited for without end.",
                kScenario,
                {"one_terminal_event", "full_service_returns"}}) {}

  std::optional<StreamStep> on_time(Stream&, Instant) override { return StreamStep{}; }
} planted;

}  // namespace
}  // namespace shoal::sim
