// Credit for what was handled is not given back.
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"
#include "tests/sim/defects/frames.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 120 gap_us: 3000 prompt_min: 200 prompt_max: 600 answer_max: 10 leave_percent: 0 }
config { link { window_bytes: 65536 } }
)";

class CreditLeak final : public LinkDefect {
 public:
  CreditLeak()
      : LinkDefect(
            {"credit_leak",
             "Credit for what was handled is not given back.",
             kScenario,
             {"one_terminal_event", "full_service_returns", "views_are_true", "leases_return"}}) {}

 private:
  std::vector<std::string> instead(NodeId, NodeId, std::string bytes) override {
    if (frame_of(bytes).is_case() == wire::Frame::kCredit) {
      return {};
    }
    return {std::move(bytes)};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
