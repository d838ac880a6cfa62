// The KV of another request is fetched, and taken for the right one.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 40 gap_us: 500 answer_min: 5 leave_percent: 0 }
)";

class KvOfAnotherRequest final : public Defect {
 public:
  KvOfAnotherRequest()
      : Defect({"kv_of_another_request",
                "The KV of another request is fetched, and taken for the right one.",
                kScenario,
                {"true_tokens", "leases_return"}}) {}

  void begin() override { fetches_ = 0; }

  Tamper tamper() override {
    Tamper tamper;
    tamper.fetched = [this](NodeId, BufferKey key) {
      return ++fetches_ % 5 == 0 ? BufferKey{key.value - 1} : key;
    };
    return tamper;
  }

  bool trusts_kv_images() override { return true; }

 private:
  int fetches_ = 0;
} planted;

}  // namespace
}  // namespace shoal::sim
