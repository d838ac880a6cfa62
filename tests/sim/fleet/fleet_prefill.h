// One prefill instance of a fleet: what waits for its KV, the production schedule, its running
// step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "actors/policy/prefill_schedule.h"
#include "schemas/fleet.pb.h"
#include "tests/sim/fleet/prefill_chooser.h"

namespace shoal::sim {

struct FleetPrefillJob {
  std::uint64_t request = 0;
  Position hit = 0;
  std::int64_t rows = 0;
  Nanos predicted{0};
  int length_class = 0;
  Instant deadline;
};

class FleetPrefill {
 public:
  explicit FleetPrefill(const fleet::Prefill& options);

  // Its KV is on the way; it counts as queued.
  void wait(const FleetPrefillJob& job);
  // The KV is there, if the instance still waits for it.
  void load(std::uint64_t request, Nanos now);
  // Begins a step and says how long it takes; nothing: it runs already, or has nothing to do.
  std::optional<Nanos> begin(Nanos now);
  // The running step is over; the requests whose prompt it completed.
  std::vector<std::uint64_t> end();
  // Nothing runs until up(); what it has, and what still comes, is lost.
  void fail();
  // Everything that is lost, once.
  std::vector<std::uint64_t> take_lost();

  void up() { up_ = true; }

  // It takes no more requests, and ends what it has.
  void open(bool is_open) { is_open_ = is_open; }

  bool is_idle() const { return held_.empty() && waiting_.empty(); }

  bool is_up() const { return up_; }

  // Failures so far: an event of an earlier one is void.
  std::uint64_t version() const { return version_; }

  PrefillReport describe() const;

  // Sums over all steps.
  double longest_ns() const { return longest_; }

  double mean_ns() const { return mean_; }

  // When the last step is over for the ranks together.
  std::int64_t busy_ns() const { return busy_; }

 private:
  CostModel cost_;
  CostCoefficients coefficients_;
  PrefillSchedule::Limits limits_;
  std::size_t ranks_;
  PrefillSchedule schedule_;
  std::map<std::uint64_t, FleetPrefillJob> waiting_;
  std::set<std::uint64_t> held_;  // by the schedule, or by the running step
  std::vector<std::uint64_t> finishing_;
  Nanos step_ends_{0};
  bool running_ = false;
  bool up_ = true;
  bool is_open_ = true;
  std::uint64_t version_ = 0;
  double longest_ = 0;
  double mean_ = 0;
  std::int64_t busy_ = 0;
};

}  // namespace shoal::sim
