// Now and then the blocks of an answer that is over are not given back.
#include "tests/sim/defects/defect.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 20 }
)";

class LeaseNeverReturned final : public Defect {
 public:
  LeaseNeverReturned()
      : Defect({"lease_never_returned",
                "Now and then the blocks of an answer that is over are not given back.",
                kScenario,
                {"leases_return"}}) {}

  void begin() override { given_ = 0; }

  bool loses_blocks() override { return ++given_ % 16 == 0; }

 private:
  int given_ = 0;
} planted;

}  // namespace
}  // namespace shoal::sim
