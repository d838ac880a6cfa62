// A link delivers token batches twice, and the stream takes both.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"
#include "tests/sim/defects/frames.h"

namespace shoal::sim {
namespace {

constexpr char kScenario[] = R"(
node: "gateway router"
node: "prefill"
node: "decode"
workload { requests: 20 answer_min: 5 }
)";

class TokenBatchTwice final : public LinkDefect {
 public:
  TokenBatchTwice()
      : LinkDefect({"token_batch_twice",
                    "A link delivers token batches twice, and the stream takes both.",
                    kScenario,
                    {"true_tokens", "one_terminal_event"}}) {}

  void on_tokens(Stream& stream, TokenRun& run) override {
    run.first_position = std::max(run.first_position, stream.position());
  }

 private:
  std::vector<std::string> instead(NodeId, NodeId, std::string bytes) override {
    if (message_in<TokenBatch>(bytes)) {
      return {bytes, bytes};
    }
    return {std::move(bytes)};
  }
} planted;

}  // namespace
}  // namespace shoal::sim
