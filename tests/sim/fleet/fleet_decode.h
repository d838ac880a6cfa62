// One decode group of a fleet. All its requests gain the same number of tokens in a step, so a step
// costs by ranks, not by requests: a request ends when the group's clock reaches its end.
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
  explicit FleetDecode(const fleet::Decode& options);

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

  std::uint64_t version() const { return version_; }

  // As a balancer sees the ranks; `dead` ranks are told apart only once they are `noticed`.
  void describe(std::vector<DecodeRank>& ranks, std::uint32_t first_device) const;
  void notice(std::size_t rank);

  std::int64_t live() const { return static_cast<std::int64_t>(jobs_.size()); }

  // Of the last step: each rank's time, ns.
  const std::vector<std::int64_t>& rank_ns() const { return rank_ns_; }

  double longest_ns() const { return longest_; }

  double mean_ns() const { return mean_; }

 private:
  // Tokens and the clock are in thousandths.
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
  };

  void forget(std::map<std::uint64_t, Job>::iterator job);
  std::int64_t given(const Job& job) const;

  std::int64_t step_ns_;
  std::int64_t request_ns_;
  std::int64_t token_fs_;
  std::int64_t advance_;
  double moe_lb_;
  std::int64_t blocks_;
  std::vector<Rank> ranks_;
  std::vector<std::int64_t> rank_ns_;
  std::map<std::uint64_t, Job> jobs_;
  std::vector<std::uint64_t> ready_;
  std::priority_queue<std::pair<std::int64_t, std::uint64_t>,
                      std::vector<std::pair<std::int64_t, std::uint64_t>>,
                      std::greater<>>
      ends_;
  std::int64_t clock_ = 0;
  std::int64_t active_ = 0;
  bool stepping_ = false;
  Nanos still_until_{0};
  std::uint64_t version_ = 0;
  double longest_ = 0;
  double mean_ = 0;
};

}  // namespace shoal::sim
