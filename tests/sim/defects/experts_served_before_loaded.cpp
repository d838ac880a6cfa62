// A shard of experts serves a placement whose slots it has not loaded yet.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

class ExpertsServedBeforeLoaded final : public Defect {
 public:
  ExpertsServedBeforeLoaded()
      : Defect({"experts_served_before_loaded",
                "A shard of experts serves a placement whose slots it has not loaded yet.",
                R"(
node: "gateway router prefill"
node: "decode"
node: "experts"
node: "experts"
workload { requests: 12 gap_us: 60000 prompt_max: 200 answer_min: 10 answer_max: 30 leave_percent: 0 }
config { experts { window_ms: 80 window_rows: 20 place_ms: 600 layer_us: 100000 move_us: 1 } }
device { model: "guppy" blocks: 32 }
)",
                {"true_tokens"}}) {}

  bool loads_nothing() override { return true; }
} planted;

}  // namespace
}  // namespace shoal::sim
