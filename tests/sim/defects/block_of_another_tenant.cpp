// Blocks are named without the tenant that they are of.
#include <memory>
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
workload { requests: 60 gap_us: 150000 texts: 2 tenants: 2 prompt_min: 300 prompt_max: 700 }
store { }
)";

class BlockOfAnotherTenant final : public LinkDefect {
 public:
  BlockOfAnotherTenant()
      : LinkDefect({"block_of_another_tenant",
                    "Blocks are named without the tenant that they are of.",
                    kScenario,
                    {"tenants_are_apart"}}) {}

 private:
  std::vector<std::string> instead(NodeId, NodeId, std::string bytes) override {
    const auto submit = message_in<Submit>(bytes);
    if (!submit) {
      return {std::move(bytes)};
    }
    Submission other = *submit->submission;
    other.tenant.clear();
    return {with_message(bytes, Submit{std::make_shared<const Submission>(std::move(other))})};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
