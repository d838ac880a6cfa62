// What is read of a segment names other places than the blocks have, and whatever lies there is
// taken.
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
workload { requests: 60 gap_us: 150000 texts: 3 prompt_min: 200 prompt_max: 700 }
fault { kind: KILL node: 1 at_ms: 3000 for_ms: 200 }
fault { kind: KILL node: 2 at_ms: 4000 for_ms: 200 }
)";

class StaleIndexAfterRestart final : public StoreDefect {
 public:
  StaleIndexAfterRestart()
      : StoreDefect({"stale_index_after_restart",
                     "What is read of a segment names other places than the blocks have, and "
                     "whatever lies there is taken.",
                     kScenario}) {}

  bool trusts_records() override { return true; }

  // Two blocks of one segment change places.
  void on_segment(transport::SegmentNews& news) override {
    std::vector<transport::IndexEntry*> blocks;
    for (transport::IndexEntry& entry : news.added) {
      if (entry.kind == transport::EntryKind::kBlock) {
        blocks.push_back(&entry);
      }
    }
    if (blocks.size() > 1) {
      std::swap(blocks.front()->page, blocks.back()->page);
    }
  }
} planted;

}  // namespace
}  // namespace shoal::sim
