// A token batch is lost, and the stream goes on behind the gap.
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

class GapInStream final : public LinkDefect {
 public:
  GapInStream()
      : LinkDefect({"gap_in_stream",
                    "A token batch is lost, and the stream goes on behind the gap.",
                    kScenario,
                    {"true_tokens"}}) {}

  void begin() override { batches_ = 0; }

  void on_tokens(Stream& stream, TokenRun& run) override {
    if (run.attempt == stream.attempt()) {
      run.first_position = stream.position();
    }
  }

 private:
  std::vector<std::string> instead(NodeId, NodeId, std::string bytes) override {
    if (message_in<TokenBatch>(bytes) && ++batches_ % 50 == 0) {
      return {};
    }
    return {std::move(bytes)};
  }

  int batches_ = 0;
} planted;

}  // namespace
}  // namespace shoal::sim
