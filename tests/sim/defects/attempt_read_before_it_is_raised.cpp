// A resubmission carries the number of the attempt before it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"
#include "tests/sim/defects/frames.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway"
node: "router"
node: "prefill"
node: "decode"
node: "decode"
workload { requests: 40 gap_us: 5000 answer_min: 20 answer_max: 60 leave_percent: 0 }
fault { kind: KILL node: 3 at_ms: 150 for_ms: 600 }
config { request { attempts: 20 } }
settle_s: 20
)";

class AttemptReadBeforeItIsRaised final : public LinkDefect {
 public:
  AttemptReadBeforeItIsRaised()
      : LinkDefect({"attempt_read_before_it_is_raised",
                    "A resubmission carries the number of the attempt before it.",
                    kScenario,
                    {"full_service_returns", "one_terminal_event", "one_owner"}}) {}

 private:
  std::vector<std::string> instead(NodeId, NodeId, std::string bytes) override {
    const auto submit = message_in<Submit>(bytes);
    if (!submit || submit->submission->attempt == AttemptId{1}) {
      return {std::move(bytes)};
    }
    Submission other = *submit->submission;
    --other.attempt.value;
    return {with_message(bytes, Submit{std::make_shared<const Submission>(std::move(other))})};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
