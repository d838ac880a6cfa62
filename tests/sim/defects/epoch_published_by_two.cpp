// Two owners publish different views under one epoch.
#include <memory>
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
node: "decode"
workload { requests: 20 }
fault { kind: PAUSE node: 3 at_ms: 100 for_ms: 1600 }
)";

class EpochPublishedByTwo final : public LinkDefect {
 public:
  EpochPublishedByTwo()
      : LinkDefect({"epoch_published_by_two",
                    "Two owners publish different views under one epoch.",
                    kScenario,
                    {"one_view_an_epoch"}}) {}

 private:
  std::vector<std::string> instead(NodeId, NodeId to, std::string bytes) override {
    constexpr NodeId kMisled{1};
    const auto published = message_in<ViewPublished>(bytes);
    if (!published || to != kMisled || published->view->members.size() < 2) {
      return {std::move(bytes)};
    }
    View other = *published->view;
    other.members.back().incarnation.value += 1;
    return {with_message(bytes, ViewPublished{std::make_shared<const View>(std::move(other))})};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
