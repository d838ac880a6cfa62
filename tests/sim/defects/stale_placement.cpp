// A placement from before a regroup is obeyed after it.
#include <cstdint>
#include <map>
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
workload { requests: 100 gap_us: 40000 answer_min: 5 }
fault { kind: PAUSE node: 1 at_ms: 300 for_ms: 1600 }
probes: 3
)";

class StalePlacement final : public LinkDefect {
 public:
  StalePlacement()
      : LinkDefect(
            {"stale_placement",
             "A placement from before a regroup is obeyed after it.",
             kScenario,
             {"full_service_returns", "views_are_true", "leases_return", "one_terminal_event"}}) {}

  void begin() override { kept_.clear(); }

 private:
  // What a session carried comes again in the next one, under its epoch.
  std::vector<std::string> instead(NodeId from, NodeId to, std::string bytes) override {
    if (!message_in<PlacePrefill>(bytes)) {
      return {std::move(bytes)};
    }
    const std::uint64_t epoch = frame_of(bytes).envelope().epoch();
    const auto old = kept_.find({from, to});
    std::vector<std::string> both = {bytes};
    if (old != kept_.end() && frame_of(old->second).envelope().epoch() != epoch) {
      wire::Frame frame = frame_of(old->second);
      frame.mutable_envelope()->set_epoch(epoch);
      both.insert(both.begin(), frame.SerializeAsString());
    }
    kept_[{from, to}] = std::move(bytes);
    return both;
  }

  std::map<std::pair<NodeId, NodeId>, std::string> kept_;
} planted;

}  // namespace
}  // namespace shoal::sim
