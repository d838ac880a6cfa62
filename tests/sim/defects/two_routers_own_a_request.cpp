// A submission reaches the router before and its successor.
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
node: "router"
node: "prefill"
node: "decode"
workload { requests: 40 gap_us: 3000 }
)";

class TwoRoutersOwnARequest final : public LinkDefect {
 public:
  TwoRoutersOwnARequest()
      : LinkDefect({"two_routers_own_a_request",
                    "A submission reaches the router before and its successor.",
                    kScenario,
                    {"one_owner"}}) {}

  void begin() override { doubled_.reset(); }

 private:
  std::vector<std::string> instead(NodeId, NodeId to, std::string bytes) override {
    std::vector<std::string> all;
    if (message_in<Submit>(bytes)) {
      if (doubled_ && doubled_->first != to) {
        all.push_back(std::exchange(doubled_, std::nullopt)->second);
      } else {
        doubled_ = {to, bytes};
      }
    }
    all.push_back(std::move(bytes));
    return all;
  }

  std::optional<std::pair<NodeId, std::string>> doubled_;
} planted;

}  // namespace
}  // namespace shoal::sim
