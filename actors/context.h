// What all actors of a node share: options, ports, the model's shape, counters, and the two boards
// that other threads read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/device_port.h"
#include "actors/expert_board.h"
#include "actors/expert_group.h"
#include "actors/expert_parts.h"
#include "actors/front_door.h"
#include "actors/interfaces.h"
#include "actors/log.h"
#include "actors/metrics.h"
#include "actors/policy/autoscale.h"
#include "actors/policy/cost_model.h"
#include "actors/policy/decode_moves.h"
#include "actors/policy/decode_policies.h"
#include "actors/policy/expert_plan.h"
#include "actors/policy/health.h"
#include "actors/policy/kv_quota.h"
#include "actors/policy/prefill_policies.h"
#include "actors/policy/prefill_schedule.h"
#include "actors/policy/request_machine.h"
#include "actors/policy/service_demand.h"
#include "actors/provisioner.h"
#include "actors/tail_keeper.h"
#include "actors/timeline.h"
#include "actors/topology.h"
#include "kernels/backend.h"
#include "kernels/launch_queue.h"
#include "schemas/units.h"
#include "transport/transport.h"

namespace shoal {

class ClusterGroup;

// Of the one autoscaler of a cluster.
struct AutoscaleOptions {
  const AutoscaleRow* policy = &autoscale_policies().front();
  const ProvisionerRow* provisioner = &provisioner_rows().front();
  ScaleTiming timing{};
  Nanos token{std::chrono::milliseconds(50)};  // a full decode node's step
  PoolShape prefill{};
  PoolShape decode{};
};

struct ExpertBalanceOptions {
  const ExpertPlanRow* policy = &expert_planners().front();
  Nanos window{0};              // 0: nothing is balanced
  std::int64_t least_rows = 1;  // of a layer, in a window
  Nanos limit{0};               // from the end of a window until its placement is in force
  ExpertPlanCosts costs{};
};

// The configuration as the actors need it: converted and derived once, see node_options().
struct NodeOptions {
  CostCoefficients prefill_cost;
  CostCoefficients decode_cost;
  PrefillBounds prefill_bounds{};
  PrefillSchedule::Limits prefill_limits;
  const PrefillPolicyRow* prefill_policy = &prefill_policies().front();
  std::size_t prefill_queue = 0;  // per class
  std::int64_t prefill_group_queue = 0;
  std::int64_t kv_blocks = 0;  // of one device
  std::int64_t decode_batch = 0;
  std::size_t decode_steps_ahead = 1;  // that are prepared while one runs
  const DecodeRow* decode_policy = &decode_policies().front();
  const VerifyRow* decode_drafts = nullptr;  // null: none are made
  DecodeMoveCost decode_move{};
  Nanos decode_move_pause{0};  // between two moves
  std::size_t decode_queue = 0;
  Position context = 0;     // prompt plus answer
  std::size_t ceiling = 0;  // open answers
  std::uint32_t attempts = 0;
  Nanos deadline{0};
  RequestLimits request_limits;
  Nanos tick{0};
  HealthLimits health;
  std::int64_t restarts = 0;
  Nanos restart_window{0};
  Nanos kv_load{0};   // longest wait for blocks of the store
  Nanos kv_hedge{0};  // after so long they are read a second time
  KvQuotaLimits kv_quota{};
  TailLimits tails{};
  AutoscaleOptions autoscale{};
  ExpertBalanceOptions expert_balance{};
};

struct LinkLimits {
  std::size_t message = 0;  // bytes of one message
  std::size_t window = 0;   // bytes on the way that the other side has not handled yet
  std::size_t queue = 0;    // bytes waiting for the window; beyond, the link is lost
};

// The other nodes, and the ports to them.
struct ClusterContext {
  NodeId self;
  Topology topology;
  LinkLimits limits;
  LinkPort* links = nullptr;
  transport::Transport* transport = nullptr;
  transport::ClusterStore* store = nullptr;  // at the owner
  std::uint64_t process = 0;                 // drawn at start, 48 bits
  ModelIdentity identity;
  std::atomic<std::uint64_t> incarnation{0};
};

// The transport goes by the process, the membership by each life of the node in it.
inline constexpr int kLifeBits = 16;

constexpr IncarnationId process_of(IncarnationId incarnation) {
  return IncarnationId{incarnation.value >> kLifeBits};
}

// The inboxes of the HTTP shards. Written before any submission, read by the gateway.
class ShardTable {
 public:
  void attach(std::uint32_t shard, ShardInbox& inbox);
  ShardInbox* find(std::uint32_t shard) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, ShardInbox*> inboxes_;
};

// What a drain waits for: answers that the gateway owes, sequences of the groups, KV on offer.
class OpenWork {
 public:
  void add(std::int64_t change);
  // False: some is left after `limit`.
  bool wait_until_none(Nanos limit) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::int64_t count_ = 0;
};

// What prefill costs, as the last report of a prefill group says: written by the balancers, read by
// the router. Null: none has learned anything yet.
class PriceBoard {
 public:
  void set(const CostCoefficients& cost);
  std::optional<CostCoefficients> get() const;

 private:
  mutable std::mutex mutex_;
  std::optional<CostCoefficients> cost_;
};

// The supervisor's last judgement, for any thread.
class HealthBoard {
 public:
  void publish(NodeHealth health, Instant now);
  // An old judgement is none: the supervisor itself is dead.
  NodeHealth read(Instant now, Nanos oldest) const;
  // False: some part has still not answered after `limit`.
  bool wait_until_started(Nanos limit) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  NodeHealth health_;
  Instant published_;
};

// Options, shape and devices do not change after build_node; the rest is thread-safe.
struct NodeContext {
  NodeOptions options;
  kernels::ModelShape shape;
  NodeRoles roles;
  std::vector<DevicePort> devices;  // one rank each; none without prefill and decode
  std::function<Instant()> now;
  EventLog log;
  NodeMetrics metrics;
  ShardTable shards;
  OpenWork open;
  HealthBoard health;
  TimelineBoard timelines;
  std::atomic<bool> draining{false};        // the process ends when its work is over
  std::atomic<bool> serving{true};          // false once and for all when the supervisor gave up
  std::unique_ptr<ClusterContext> cluster;  // null: this process is the whole cluster
  std::atomic<bool> feeds_drafts{true};     // drafts will be made of answers to prompts run now
  std::atomic<std::uint64_t> buffers{0};    // keys given to what it offered so far
  KvParts kv{};                             // without a store: none is kept
  ExpertParts experts{};                    // devices run theirs themselves, unless it says else
  PriceBoard prices{};
  ExpertBalanceParts expert_balance{};
  ExpertBoard expert_board{};
  std::shared_ptr<ClusterGroup> cluster_experts{};  // null: no balancer of a cluster is here

  transport::Transport* transport() const {
    return cluster == nullptr ? nullptr : cluster->transport;
  }

  // Into the timelines.
  void note(const RequestNoted& noted);

  BufferKey next_buffer() { return BufferKey{++buffers}; }
};

using ContextPtr = std::shared_ptr<NodeContext>;

// One part's share of the open work, which goes with the part.
class OpenCount {
 public:
  OpenCount() = default;

  ~OpenCount() { set(0); }

  OpenCount(const OpenCount&) = delete;
  OpenCount& operator=(const OpenCount&) = delete;

  void start(ContextPtr node) { node_ = std::move(node); }

  void set(std::size_t count) {
    const auto now = static_cast<std::int64_t>(count);
    if (node_ != nullptr && now != told_) {
      node_->open.add(now - told_);
      told_ = now;
    }
  }

 private:
  ContextPtr node_;
  std::int64_t told_ = 0;
};

// A part's place in the node: who it is, whom it knows, and what it finished.
struct PartSeat {
  std::uint32_t part = 0;
  ContextPtr node;
  WiringPtr wiring = std::make_shared<const Wiring>();
  std::uint64_t progress = 0;  // things finished; the supervisor looks whether it moves

  const RouterActor& router_of(const Placement& placement) const {
    return wiring->at(placement.router).router;
  }

  void answer_ping(bool has_work, std::string trouble = {}) const {
    notify(wiring->supervisor, Heartbeat{part, progress, has_work, std::move(trouble)});
  }
};

}  // namespace shoal
