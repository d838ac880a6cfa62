// A turn goes on from whatever tail its key leads to.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

// Sessions that begin alike and are as long as each other: a device cannot tell their tails apart.
constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload {
  requests: 12 turns: 2 think_us: 3000000 texts: 1 prompt_min: 300 prompt_max: 300
  answer_min: 20 answer_max: 20 exact_percent: 0 leave_percent: 0 stop_percent: 0
}
store { }
config { kv { tail_ms: 20000 } }
)";

constexpr NodeId kDecodeNode{2};

class TailOfAnotherSession final : public Defect {
 public:
  TailOfAnotherSession()
      : Defect({"tail_of_another_session",
                "A turn goes on from whatever tail its key leads to.",
                kScenario,
                {"true_tokens"}}) {}

  bool trusts_tails() override { return true; }

  // Nothing but tails is fetched from there.
  Tamper tamper() override {
    Tamper tamper;
    tamper.fetched = [](NodeId from, BufferKey key) {
      return from == kDecodeNode ? BufferKey{key.value - 1} : key;
    };
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
