// The KV store writes on when its files have all the room that they may have.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill decode"
workload { requests: 100 gap_us: 100000 prompt_min: 600 prompt_max: 1200 answer_max: 10 }
store { bytes: 1048576 }
device { blocks: 128 }
)";

class FilesWithoutCeiling final : public Defect {
 public:
  FilesWithoutCeiling()
      : Defect({"files_without_ceiling",
                "The KV store writes on when its files have all the room that they may have.",
                kScenario,
                {"within_ceilings"}}) {}

  Tamper tamper() override {
    Tamper tamper;
    tamper.blocks = [](transport::BlockStoreLimits& limits) {
      limits.bytes = transport::BlockStoreLimits{}.bytes;
    };
    return tamper;
  }
} planted;

}  // namespace
}  // namespace shoal::sim
