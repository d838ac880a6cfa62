// What the balancing of experts saw and did, for the page of metrics, and whether a plan is under
// way. It outlives each balancer, so that a new one neither counts anew nor plans beside a plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/expert_dispatch.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

// A plan from the end of its window until it is in force or given up.
struct ExpertFlight {
  explicit ExpertFlight(Instant limit) : deadline(limit) {}

  const Instant deadline;
  std::atomic<bool> has_begun{false};
  std::atomic<bool> is_over{false};
};

// What a placement in force cost.
struct ExpertMoved {
  std::int64_t slots = 0;
  Bytes bytes{0};
  Nanos time{0};  // of loading
};

// Any thread.
class ExpertBoard {
 public:
  // Null: a plan is under way. One whose end was not heard of by its deadline is counted as lost,
  // except that nothing is begun behind one that has not even begun: its thread is held up.
  std::shared_ptr<ExpertFlight> begin(Instant now, Nanos limit);

  // What each layer was given between two looks.
  void saw_window(std::vector<ExpertTraffic> window);
  void planned(Nanos time);
  // The ends of a plan.
  void kept(ExpertFlight& flight);
  void placed(ExpertFlight& flight, const ExpertMoved& moved);
  void failed(ExpertFlight& flight);

  // Text exposition format; `epoch` is in force. A line a layer, a shard, and for the few experts
  // of a layer that got most: labels by place, not by expert, keep the number of series at that.
  std::string text(EpochId epoch) const;
  // The same without plans: of a node whose balancer is elsewhere.
  std::string loads_text(EpochId epoch) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<ExpertFlight> flight_;  // null: none yet
  std::vector<ExpertTraffic> window_;
  std::int64_t kept_ = 0;
  std::int64_t placed_ = 0;
  std::int64_t failed_ = 0;
  std::int64_t lost_ = 0;
  Nanos planning_{0};
  ExpertMoved moved_;
};

}  // namespace shoal
