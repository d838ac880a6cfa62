// Names follow the list of invariants that every run is held to.
#include "tests/sim/invariants.h"

#include <algorithm>
#include <string>

namespace shoal::sim {
namespace {

constexpr Nanos kGrace = std::chrono::seconds(3);

std::vector<std::string> timeline_of(const World& world, RequestId request) {
  std::vector<std::string> timeline;
  const std::string word = "request=" + std::to_string(request.value);
  for (const std::string& line : world.events()) {
    const auto at = line.find(word);
    if (line.find(" world.") != std::string::npos ||
        (at != std::string::npos &&
         (at + word.size() == line.size() || line[at + word.size()] == ' '))) {
      timeline.push_back(line);
    }
  }
  return timeline;
}

class Checker {
 public:
  explicit Checker(const Finished& run) : run_(run) {}

  std::vector<Violation> check() {
    for (const Asked& asked : run_.workload.asked()) {
      one_end(asked);
      true_tokens(asked);
    }
    probes_answered();
    if (!run_.whole_again) {
      violate("full_service_returns", "not all nodes are members and linked again", {});
    }
    if (!run_.memory_free) {
      violate("leases_return", "KV memory is still held after the last answer", {});
    }
    buffers_withdrawn();
    return std::move(found_);
  }

 private:
  void violate(const std::string& invariant, const std::string& what, RequestId request) {
    found_.push_back({invariant, what, timeline_of(run_.world, request)});
  }

  // 1. Exactly one terminal event, by the deadline and a grace.
  void one_end(const Asked& asked) {
    const testing::Answer answer = asked.clients->answer(asked.request);
    if (answer.terminal_events > 1) {
      violate("one_terminal_event",
              "request " + std::to_string(asked.request.value) + " ended " +
                  std::to_string(answer.terminal_events) + " times",
              asked.request);
    }
    if (!answer.over()) {
      violate("one_terminal_event",
              "request " + std::to_string(asked.request.value) + " never ended",
              asked.request);
    } else if (answer.ended && *answer.ended > asked.deadline + kGrace) {
      violate("one_terminal_event",
              "request " + std::to_string(asked.request.value) + " ended too late",
              asked.request);
    }
  }

  // 2. Tokens are those of the run without faults, each once and in order.
  void true_tokens(const Asked& asked) {
    const testing::Answer answer = asked.clients->answer(asked.request);
    if (!answer.basis) {
      if (!answer.tokens.empty()) {
        violate("true_tokens", "tokens came without a basis", asked.request);
      }
      return;
    }
    const auto truth = testing::sim_answer(
        run_.model, asked.clients->asked(asked.request), *answer.basis, run_.world.context());
    const bool is_prefix = answer.tokens.size() <= truth.size() &&
                           std::equal(answer.tokens.begin(), answer.tokens.end(), truth.begin());
    const bool complete = answer.terminal_events == 1 && !answer.error && asked.stop_after == 0;
    if (!is_prefix || (complete && answer.tokens.size() != truth.size())) {
      violate("true_tokens",
              "request " + std::to_string(asked.request.value) + " was told " +
                  std::to_string(answer.tokens.size()) + " tokens, the truth has " +
                  std::to_string(truth.size()),
              asked.request);
    }
  }

  // 6. After the faults everybody is answered.
  void probes_answered() {
    const auto& asked = run_.workload.asked();
    for (std::size_t i = run_.workload.first_probe(); i < asked.size(); ++i) {
      const testing::Answer answer = asked[i].clients->answer(asked[i].request);
      if (answer.error) {
        violate("full_service_returns",
                "a request after the faults failed: " + answer.error->message,
                asked[i].request);
      }
    }
  }

  // 4. Nothing stays on offer.
  void buffers_withdrawn() {
    for (std::uint32_t n = 0; n < run_.world.size(); ++n) {
      if (run_.world.alive(NodeId{n}) && run_.world.transport(NodeId{n}).use().offers != 0) {
        violate("leases_return", "node " + std::to_string(n) + " still offers KV buffers", {});
      }
    }
  }

  const Finished& run_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> check_invariants(const Finished& run) {
  return Checker(run).check();
}

}  // namespace shoal::sim
