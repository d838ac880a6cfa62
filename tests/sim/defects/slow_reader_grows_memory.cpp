// What a client does not read is kept without a limit.
#include <cstdint>

#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 10 answer_min: 300 answer_max: 600 prompt_max: 30 slow_percent: 50 leave_percent: 0 stop_percent: 0 }
clients { unread_tokens: 64 }
)";

class SlowReaderGrowsMemory final : public Defect {
 public:
  SlowReaderGrowsMemory()
      : Defect({"slow_reader_grows_memory",
                "What a client does not read is kept without a limit.",
                kScenario,
                {"within_ceilings"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.unread = INT64_MAX;
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
