// Defects that spoil the later attempts of an answer, on their way from the gateway to a router.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"
#include "tests/sim/defects/frames.h"

namespace shoal::sim {

// A decode node is killed in the middle of answers.
inline constexpr char kResumed[] = R"(
node: "gateway"
node: "router"
node: "prefill"
node: "decode"
node: "decode"
workload { requests: 40 gap_us: 5000 answer_min: 20 answer_max: 60 leave_percent: 0 }
fault { kind: KILL node: 3 at_ms: 150 for_ms: 600 }
config { request { attempts: 20 } }
settle_s: 20
)";

class ResubmissionDefect : public LinkDefect {
 public:
  using LinkDefect::LinkDefect;

 private:
  virtual void spoil(Submission& submission) const = 0;

  std::vector<std::string> instead(NodeId, NodeId, std::string bytes) final {
    const auto submit = message_in<Submit>(bytes);
    if (!submit || submit->submission->attempt == AttemptId{1}) {
      return {std::move(bytes)};
    }
    Submission other = *submit->submission;
    spoil(other);
    return {with_message(bytes, Submit{std::make_shared<const Submission>(std::move(other))})};
  }
};

}  // namespace shoal::sim
