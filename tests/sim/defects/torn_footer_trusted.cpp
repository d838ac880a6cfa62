// The checksum of the page that says what a segment holds is not looked at.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "prefill"
node: "decode"
workload { requests: 150 gap_us: 80000 texts: 3 prompt_min: 300 prompt_max: 700 answer_max: 10 }
store { }
fault { kind: KV_FLIP count: 6 at_ms: 1900 }
fault { kind: KILL node: 0 at_ms: 2000 for_ms: 50 }
fault { kind: KILL node: 1 at_ms: 2000 for_ms: 50 }
fault { kind: KILL node: 2 at_ms: 2000 for_ms: 50 }
fault { kind: KV_FLIP count: 6 at_ms: 3900 }
fault { kind: KILL node: 0 at_ms: 4000 for_ms: 50 }
fault { kind: KILL node: 1 at_ms: 4000 for_ms: 50 }
fault { kind: KILL node: 2 at_ms: 4000 for_ms: 50 }
fault { kind: KV_FLIP count: 6 at_ms: 5900 }
fault { kind: KILL node: 0 at_ms: 6000 for_ms: 50 }
fault { kind: KILL node: 1 at_ms: 6000 for_ms: 50 }
fault { kind: KILL node: 2 at_ms: 6000 for_ms: 50 }
fault { kind: KV_FLIP count: 6 at_ms: 7900 }
fault { kind: KILL node: 0 at_ms: 8000 for_ms: 50 }
fault { kind: KILL node: 1 at_ms: 8000 for_ms: 50 }
fault { kind: KILL node: 2 at_ms: 8000 for_ms: 50 }
fault { kind: KV_FLIP count: 6 at_ms: 9900 }
fault { kind: KILL node: 0 at_ms: 10000 for_ms: 50 }
fault { kind: KILL node: 1 at_ms: 10000 for_ms: 50 }
fault { kind: KILL node: 2 at_ms: 10000 for_ms: 50 }
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
