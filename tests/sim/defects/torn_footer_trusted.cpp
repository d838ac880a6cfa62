// The checksum of the page that says what a segment holds is not looked at.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "prefill"
node: "decode"
workload { requests: 80 gap_us: 100000 texts: 3 prompt_min: 200 prompt_max: 700 }
store { }
fault { kind: KV_FLIP count: 6 at_ms: 2900 }
fault { kind: KILL node: 1 at_ms: 3000 for_ms: 200 }
fault { kind: KILL node: 2 at_ms: 3000 for_ms: 200 }
fault { kind: KV_FLIP count: 6 at_ms: 4900 }
fault { kind: KILL node: 0 at_ms: 5000 for_ms: 200 }
fault { kind: KILL node: 1 at_ms: 5000 for_ms: 200 }
fault { kind: KILL node: 2 at_ms: 5000 for_ms: 200 }
)";

class TornFooterTrusted final : public Defect {
 public:
  TornFooterTrusted()
      : Defect({"torn_footer_trusted",
                "The checksum of the page that says what a segment holds is not looked at.",
                kScenario,
                {"blocks_are_true", "true_tokens"}}) {}

  bool trusts_index_pages() override { return true; }
} planted;

}  // namespace
}  // namespace shoal::sim
