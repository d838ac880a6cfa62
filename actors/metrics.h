// What the actors count, and how Prometheus reads it. Every metric of the node is declared here;
// any thread adds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "actors/policy/cost_fit.h"
#include "actors/policy/draft_control.h"
#include "actors/policy/prefill_balancer.h"
#include "actors/policy/service_demand.h"
#include "schemas/kv_record.h"
#include "schemas/result.h"
#include "transport/block_store.h"

namespace shoal {

// What a hit was taken from.
enum class KvTier : std::uint8_t { kStore, kTail };
inline constexpr int kKvTiers = 2;

// By how long ago the last block of a hit was used before: within a minute, an hour, a day, longer.
inline constexpr int kKvAges = 4;

// 0 .. kKvAges - 1.
int kv_age(std::int64_t milliseconds);

// What a group learned of its steps: see policy/cost_fit.h. All gauges.
struct CostMetrics {
  using Value = std::atomic<std::int64_t>;

  void set(const CostFit& fit);

  Value error_ppm{0};
  Value late_ppm{0};
  Value steps{0};
  Value step_ns{0};
  Value row_ps{0};
  Value near_fs{0};
  Value pair_fs{0};
  Value deep_row_ps{0};
  Value deep_pair_fs{0};
};

// What a decode group made of drafts: see policy/draft_control.h. Gauges, but for the counts.
struct DraftMetrics {
  using Value = std::atomic<std::int64_t>;

  void set(const DraftFigures& figures);

  std::array<Value, kMostDrafts> verified{};  // by place
  std::array<Value, kMostDrafts> accepted{};
  Value steps{0};  // that made drafts
  Value error_said_ppm{0};
  Value error_tempered_ppm{0};
  Value expected_gain_ppm{0};
  Value true_gain_ppm{0};
};

// What the autoscaler last decided of a role; gauges, zero on other nodes than its own.
struct ScaleMetrics {
  std::atomic<std::int64_t> units{0};
  std::atomic<std::int64_t> wanted{0};
  std::atomic<std::int64_t> demand_ns{0};    // a second
  std::atomic<std::int64_t> expected_ns{0};  // likewise
};

struct NodeMetrics {
  using Value = std::atomic<std::int64_t>;

  // The ledger.
  Value attempts{0};
  Value finished{0};
  Value cancelled{0};
  Value expired{0};
  std::array<Value, kCodeCount> failed{};  // attempts, by code
  Value ledger_open{0};                    // gauge
  Value gateway_open{0};                   // gauge

  // Queues, gauges.
  std::array<Value, kPrefillClasses> prefill_queued{};
  Value decode_queued{0};
  Value decode_live{0};

  // The device.
  Value prefill_steps{0};
  Value prefill_rows{0};
  Value prefill_compute_ns{0};
  Value decode_steps{0};
  Value decode_rows{0};
  Value fed_rows{0};
  Value decode_tokens{0};
  Value decode_yielded{0};  // answers that left for another rank
  Value decode_compute_ns{0};
  Value decode_idle_ns{0};
  Value decode_turnaround_ns{
      0};              // from planned to answered, per step: less compute = time outside kernels
  Value kv_blocks{0};  // gauge
  Value kv_blocks_free{0};     // gauge
  Value kv_sequences{0};       // gauge
  Value kv_sequences_free{0};  // gauge

  // Device time asked for, see policy/service_demand.h, and what the autoscaler made of it.
  std::array<Value, kScaledRoles> demand_ns{};
  std::array<ScaleMetrics, kScaledRoles> autoscale{};

  // What its steps cost.
  CostMetrics prefill_cost;
  CostMetrics decode_cost;
  DraftMetrics drafts;

  // The KV store.
  std::array<std::array<std::array<Value, kKvAges>, kProvenances>, kKvTiers> kv_hits{};
  Value kv_hit_tokens{0};
  Value kv_misses{0};
  Value kv_loads_failed{0};
  Value kv_corrupt{0};
  Value kv_hedged{0};
  Value kv_leases{0};      // gauge
  Value kv_tails{0};       // gauge
  Value kv_tail_bytes{0};  // gauge
  Value kv_stored{0};      // blocks
  Value kv_dropped{0};     // blocks that it did not take
  Value kv_over_quota{0};  // blocks beyond a tenant's share

  Value link_waiting{0};  // gauge, bytes that wait for nodes that do not keep up

  // Faults.
  Value parts_lost{0};
  Value pipelines_rebuilt{0};
  Value links_lost{0};
  Value envelopes_fenced{0};  // of another epoch, or from a node that is not in the view
  Value times_fenced{0};      // this node was left out of the view and came back as another life

  // Text exposition format.
  std::string text() const;
};

// What a KV store says of itself, in the same format.
std::string kv_store_text(const transport::BlockStore::Use& use);

}  // namespace shoal
