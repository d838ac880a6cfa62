// Defects in which a message of a session that is over is taken in the next one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/defects/defect.h"
#include "tests/sim/defects/frames.h"

namespace shoal::sim {

// The router is stopped until the others have given it up, and comes back.
inline constexpr char kRegrouped[] = R"(
node: "gateway"
node: "router"
node: "prefill"
node: "decode"
workload { requests: 100 gap_us: 40000 answer_min: 5 }
fault { kind: PAUSE node: 1 at_ms: 300 for_ms: 1600 }
probes: 3
)";

template <class Message>
class LateMessage : public LinkDefect {
 public:
  using LinkDefect::LinkDefect;

  void begin() override { kept_.clear(); }

 private:
  // What a session carried comes again in the next one, under its epoch.
  std::vector<std::string> instead(NodeId from, NodeId to, std::string bytes) final {
    if (!message_in<Message>(bytes)) {
      return {std::move(bytes)};
    }
    const std::uint64_t epoch = frame_of(bytes).envelope().epoch();
    const auto old = kept_.find({from, to});
    std::vector<std::string> both = {bytes};
    if (old != kept_.end() && frame_of(old->second).envelope().epoch() != epoch) {
      wire::Frame frame = frame_of(old->second);
      frame.mutable_envelope()->set_epoch(epoch);
      both.insert(both.begin(), frame.SerializeAsString());
    }
    kept_[{from, to}] = std::move(bytes);
    return both;
  }

  std::map<std::pair<NodeId, NodeId>, std::string> kept_;
};

}  // namespace shoal::sim
