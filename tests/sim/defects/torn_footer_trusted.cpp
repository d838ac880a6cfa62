// The checksum of the page that says what a segment holds is not looked at.
#include <string>

#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

// Again and again bits flip, and the processes that read the files then are new.
std::string scenario() {
  std::string text =
      "workload { requests: 150 gap_us: 80000 texts: 3 prompt_min: 300 prompt_max: 700 "
      "answer_max: 10 }\n";
  for (int at_ms = 2'000; at_ms <= 10'000; at_ms += 2'000) {
    text += "fault { kind: KV_FLIP count: 6 at_ms: " + std::to_string(at_ms - 100) + " }\n";
    for (int node = 0; node < 3; ++node) {
      text += "fault { kind: KILL node: " + std::to_string(node) +
              " at_ms: " + std::to_string(at_ms) + " for_ms: 50 }\n";
    }
  }
  return text;
}

class TornFooterTrusted final : public StoreDefect {
 public:
  TornFooterTrusted()
      : StoreDefect({"torn_footer_trusted",
                     "The checksum of the page that says what a segment holds is not looked at.",
                     scenario()}) {}

  bool trusts_index_pages() override { return true; }
} planted;

}  // namespace
}  // namespace shoal::sim
