// One decode group of a fleet. All requests of a rank gain the same number of tokens in a step, so
// a step costs by ranks, not by requests: a request ends when its rank's clock reaches its end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "actors/policy/decode_balancer.h"
#include "schemas/fleet.pb.h"
#include "schemas/ids.h"
#include "schemas/units.h"
#include "tests/sim/fleet/fleet_experts.h"
#include "tests/sim/fleet/fleet_verify.h"

namespace shoal::sim {

struct FleetDecodeJob {
  std::uint64_t request = 0;
  std::size_t rank = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t left = 0;    // tokens of the answer
  std::int64_t blocks = 0;  // reserved
};

class FleetDecode {
 public:
  // `drafts`: chances that are drawn, if the fleet says how to verify.
  FleetDecode(const fleet::Fleet& fleet, const DraftSource* drafts, std::uint64_t seed);

  // Takes the memory; the KV is on the way.
  void reserve(const FleetDecodeJob& job);
  // The KV is there: it runs from the next step on. Nothing happens if its rank failed meanwhile.
  void join(std::uint64_t request);
  std::optional<Nanos> begin(Nanos now);
  // The requests that the step finished.
  std::vector<std::uint64_t> end();

  // The rank is down until up(); the running step is void.
  void fail(std::size_t rank);
  // What was on ranks that are down, each with the tokens that it had got.
  std::vector<std::pair<std::uint64_t, std::int64_t>> take_lost();
  void up(std::size_t rank);

  // Takes part in begin() from then on.
  void stand_still(Nanos until) { still_until_ = until; }

  // No answer comes that is not there; a group that is closed ends what it has.
  void open(bool is_open) { is_open_ = is_open; }

  std::uint64_t version() const { return version_; }

  // As a balancer sees the ranks; `dead` ranks are told apart only once they are `noticed`.
  void describe(std::vector<DecodeRank>& ranks, std::uint32_t first_device) const;
  void notice(std::size_t rank);

  std::int64_t live() const { return static_cast<std::int64_t>(jobs_.size()); }

  // Of the last step: each rank's time, ns.
  const std::vector<std::int64_t>& rank_ns() const { return rank_ns_; }

  double longest_ns() const { return longest_; }

  double mean_ns() const { return mean_; }

  // Sums over all steps and requests, in thousandths.
  std::int64_t request_steps() const { return request_steps_; }

  std::int64_t gained() const { return gained_; }

  std::int64_t verified() const { return verified_; }

  // None: the fleet has no experts.
  const std::optional<FleetExperts>& experts() const { return experts_; }

 private:
  // Of a rank's requests, by when they end.
  using Ends = std::priority_queue<std::pair<std::int64_t, std::uint64_t>,
                                   std::vector<std::pair<std::int64_t, std::uint64_t>>,
                                   std::greater<>>;

  // Tokens and clocks are in thousandths.
  struct Job {
    FleetDecodeJob what;
    std::int64_t ends_at = 0;
    bool ready = false;
    bool running = false;
  };

  struct Rank {
    bool up = true;
    bool noticed = true;
    std::int64_t placed = 0;
    std::int64_t placed_tokens = 0;
    std::int64_t running = 0;
    std::int64_t base = 0;  // KV of what runs at clock 0
    std::int64_t free_blocks = 0;
    std::int64_t clock = 0;
    std::int64_t gain = 0;  // of the running step
    Ends ends{};
  };

  void take_ready();

  std::int64_t kv_of(const Rank& rank) const {
    return (rank.base + rank.running * rank.clock) / 1'000;
  }

  Nanos time_step();
  Nanos time_verified_step();
  double moe_factor(std::int64_t rows);
  void forget(std::map<std::uint64_t, Job>::iterator job);
  void end_rank(Rank& rank, std::vector<std::uint64_t>& finished);
  std::int64_t given(const Job& job) const;

  std::int64_t step_ns_;
  std::int64_t request_ns_;
  std::int64_t token_fs_;
  std::int64_t advance_;
  double moe_lb_;
  fleet::Verify verify_options_;
  std::optional<FleetVerify> verify_;
  std::optional<FleetExperts> experts_;
  std::int64_t blocks_;
  std::vector<Rank> ranks_;
  std::vector<std::int64_t> rank_ns_;
  std::map<std::uint64_t, Job> jobs_;
  std::vector<std::uint64_t> ready_;
  std::vector<std::int64_t> requests_;  // of each rank, in the step that begins
  std::int64_t active_ = 0;
  bool stepping_ = false;
  bool is_open_ = true;
  Nanos still_until_{0};
  std::uint64_t version_ = 0;
  double longest_ = 0;
  double mean_ = 0;
  std::int64_t request_steps_ = 0;
  std::int64_t gained_ = 0;
  std::int64_t verified_ = 0;
};

}  // namespace shoal::sim
