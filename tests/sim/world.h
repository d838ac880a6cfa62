// The production actors of all nodes of a cluster in one thread, under one seed and virtual time.
// Nodes meet only through simulated links, transport, record store and a disk of KV blocks, so
// whole nodes can be killed, stopped, cut off and started again.
//
// The seed decides which ready actor runs next, how long messages take and what the workload and
// the faults are. One actor system holds all nodes; whose actor a job belongs to is known from who
// spawned it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "actors/config.h"
#include "actors/expert_node.h"
#include "actors/node.h"
#include "actors/shard_group.h"
#include "kernels/sim/sim_backend.h"
#include "tests/sim/device.h"
#include "tests/sim/device_model.h"
#include "tests/sim/kv_truth.h"
#include "tests/sim/network.h"
#include "tests/sim/node_clients.h"
#include "tests/sim/node_clock.h"
#include "tests/sim/node_store.h"
#include "tests/sim/tamper.h"
#include "tests/sim/timeline.h"
#include "transport/memory/memory_transport.h"
#include "transport/sim/sim_disk.h"
#include "transport/sim/sim_store.h"

namespace shoal::sim {

struct WorldSetup {
  std::uint64_t seed = 1;
  std::vector<NodeRoles> nodes = {kAllRoles};
  std::map<NodeId, ModelIdentity> identities{};  // of those that say theirs
  DeviceModel model{};
  kernels::SimSize size{.blocks = 64, .sequences = 8};  // of each device
  int ranks = 1;                                        // devices of a node
  StepCost cost{};
  transport::TransportLimits transport{};
  StreamLimits stream{};
  std::int64_t unread_tokens = 256;  // most that wait for one client; beyond, it is cut off
  bool keeps_kv = false;             // all nodes share a KV store, on a disk
  transport::BlockStoreLimits kv{};  // of each node's
  std::function<void(Config&)> configure{};
  // The experts of a node, with its clock and the timeline; none: no node has any.
  std::function<ExpertBalanceParts(NodeId, const transport::Scheduler&)> experts{};
  Tamper tamper{};
};

class World {
 public:
  explicit World(const WorldSetup& setup);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs until `until`; false: `limit` of virtual time passed first.
  bool run(const std::function<bool()>& until, Nanos limit);

  void run_for(Nanos time) {
    run([] { return false; }, time);
  }

  // Every node reaches every other and all are members.
  bool run_until_whole(Nanos limit = std::chrono::seconds(10));
  bool run_until_all_over(Nanos limit);
  // No client waits for anything.
  bool all_over() const;

  // Faults.
  void kill(NodeId node);                // as kill -9
  void restart(NodeId node);             // after kill
  void pause(NodeId node, bool paused);  // as SIGSTOP and SIGCONT
  // As SIGTERM: no new requests, and the process ends when the open ones are over, or at its limit.
  void drain(NodeId node);
  void cut(NodeId a, NodeId b);
  void mend(NodeId a, NodeId b);
  void mend_all();
  void break_part(NodeId node, const std::string& part);
  // Transfers between the two: dropped or corrupted while it lasts.
  void spoil_bulk(NodeId a, NodeId b, transport::Fate fate);
  void slow_link(NodeId a, NodeId b, Nanos extra);
  // Its clock gains that much, or loses it.
  void drift_clock(NodeId node, std::int64_t us_per_s);
  void take_store_away(bool away);
  // What the node's calls to the disk come to, whether they return, and how much longer they take.
  void set_mount(NodeId node, Mount mount);
  void hang_disk(NodeId node, bool hangs);
  void slow_disk(NodeId node, Nanos extra);
  // Its wall clock is ahead by that much, or behind.
  void set_wall(NodeId node, std::chrono::milliseconds wrong);
  // Kills the node, and of what nobody had made durable on the disk anything may be lost.
  void lose_power(NodeId node);
  // Damage to segments on the disk; nothing, where there are none (or less than two).
  void flip_bits(std::int64_t count);
  void truncate_segment();
  void swap_segments();
  // All spoiling, slowing, holding and taking away ends.
  void end_disturbances();

  Network& network() { return network_; }

  // On the disk of KV blocks.
  std::vector<std::string> segments() const;

  transport::SimDisk& disk() { return disk_; }

  const KvTruth& kv_truth() const { return kv_truth_; }

  KvTruth& kv_truth() { return kv_truth_; }

  bool keeps_kv() const { return setup_.keeps_kv; }

  // Its actors look up or move blocks.
  bool uses_kv(NodeId node) const {
    return keeps_kv() && (hosts_.at(node.value).roles.router || has_device(node));
  }

  const transport::BlockStoreLimits& kv_limits() const { return setup_.kv; }

  // What the node's KV store says of itself.
  transport::BlockStore::Use kv_use(NodeId node) const {
    return hosts_.at(node.value).life->blocks->use();
  }

  // For how long no call to the disk has returned to the node.
  Nanos disk_hangs_for(NodeId node) const { return hosts_.at(node.value).life->disk->hangs_for(); }

  // Of all files of the KV stores.
  Bytes kv_files() const;
  // What all processes so far, dead ones too, counted of the KV stores: hits, misses, stored, ...
  std::map<std::string, std::int64_t> kv_counts() const;
  // Blocks that were durable, and that no process's KV store knows any more.
  std::size_t lost_blocks() const;
  // The KV stores have nothing to write any more.
  bool nothing_queued() const;
  // What must be equal for KV to be shared, of a tenant.
  static KvIdentity kv_identity(const std::string& tenant);

  Timeline& timeline() { return timeline_; }

  std::size_t size() const { return hosts_.size(); }

  bool alive(NodeId node) const { return hosts_.at(node.value).life != nullptr; }

  bool paused(NodeId node) const { return hosts_.at(node.value).paused; }

  bool draining(NodeId node) const { return hosts_.at(node.value).draining; }

  // Answers that a drain cut off before its limit.
  std::size_t dropped_by_drains() const { return dropped_by_drains_; }

  // Declared of all nodes.
  const Config& config() const { return config_; }

  std::int64_t unread_tokens() const { return setup_.unread_tokens; }

  // Of its process, or of the last one if it is dead: every process's clock has another zero.
  Instant now_at(NodeId node) const { return hosts_.at(node.value).clock->now(); }

  // Since when `node` is dead or stopped; none: it runs.
  std::optional<Instant> away_since(NodeId node) const { return hosts_.at(node.value).away_since; }

  Instant runs_since(NodeId node) const { return hosts_.at(node.value).runs_since; }

  // When a process that has until `due` (its own clock) must have done it: it does nothing while
  // it is stopped.
  Instant due_at(NodeId node, Instant due) const;

  bool has_clients(NodeId node) const { return hosts_.at(node.value).life->clients != nullptr; }

  bool has_device(NodeId node) const { return hosts_.at(node.value).roles.has_device(); }

  // Nodes that prefill, or that decode.
  std::int64_t count_nodes(bool prefill) const;

  Node& node(NodeId node) { return *hosts_.at(node.value).life->node; }

  // What it has of experts; null: nothing.
  ExpertNode* experts(NodeId node) { return hosts_.at(node.value).life->experts.get(); }

  // Of a node with a device, or of one with a gateway.
  Device& device(NodeId node, std::size_t rank = 0) {
    return *hosts_.at(node.value).life->devices.at(rank);
  }

  testing::Clients& clients(NodeId node) { return *hosts_.at(node.value).life->clients; }

  bool memory_is_free();
  // What gateways, ledgers and balancers count as open, in words; empty: nothing.
  std::string believed_answers() const;
  bool nothing_offered();

  transport::Transport& transport(NodeId node) { return *hosts_.at(node.value).life->transport; }

  Instant now() const;

  std::mt19937_64& random() { return random_; }

  // "n0 request.queued request=... ": node, event, fields. Faults are events of the world.
  const std::vector<std::string>& events() const { return events_; }

  void say(NodeId node, const std::string& event);
  // For readers only: not in the hash.
  void tell(NodeId node, const std::string& event);

  // Line `index` of events() after its time: ms since count_time(), below 0 before it.
  std::string timed_event(std::size_t index) const;
  std::string ms_text(Instant when) const;

  void count_time() { zero_ = now(); }

  std::uint64_t messages() const { return messages_; }

  // Most tokens of prompt and answer.
  Position context() const { return context_; }

  // Over all events and jobs so far: the same seed gives the same.
  std::uint64_t hash() const { return hash_; }

 private:
  class Runtime;

  // One process.
  struct Life {
    std::unique_ptr<NodeClock> clock;
    std::vector<std::shared_ptr<kernels::Device>> engines;  // whose its expert shards' are
    std::unique_ptr<ExpertNode> experts;  // null: devices run their experts themselves
    std::unique_ptr<ShardGroup> group;    // of the process's own; null: of no process, or of all
    std::vector<std::unique_ptr<Device>> devices;
    std::unique_ptr<LinkPort> links;
    std::unique_ptr<transport::Transport> transport;
    std::unique_ptr<transport::ClusterStore> store;
    std::unique_ptr<NodeStore> disk;
    std::unique_ptr<transport::BlockStore> blocks;
    std::unique_ptr<Node> node;
    std::unique_ptr<testing::Clients> clients;
    IncarnationId process;
  };

  struct Host {
    NodeRoles roles;
    std::unique_ptr<Life> life;  // null: killed
    bool paused = false;
    bool draining = false;
    NodeClock* clock = nullptr;  // of this process, or of the last one
    std::optional<Instant> away_since;
    Instant runs_since{};
    std::vector<std::pair<Instant, Instant>> stops;  // of this process, on its clock
  };

  void start(NodeId node);
  void open_blocks(NodeId node, Life& life);
  void open_devices(NodeId node, Life& life);
  std::unique_ptr<ExpertNode> open_experts(NodeId node, Life& life);
  transport::Scheduler background(const Life& life);
  ExpertBalanceParts expert_balance(NodeId node, Life& life);
  NodeStore* disk_of(NodeId node);
  std::vector<std::byte>& random_segment();

  struct Drain {
    NodeId node;
    IncarnationId process;
    Instant limit;
    Instant declared;  // limit
  };

  void go_on(const Drain& drain);
  bool step();
  bool run_ready_actor();
  void note(std::uint64_t value);
  void own_new_actors(NodeId node);
  NodeId owner_of_job(std::size_t job) const;
  void pass_time_of_clients();

  WorldSetup setup_;
  Config config_;       // as declared
  Config node_config_;  // as the nodes have it
  Topology topology_;
  std::mt19937_64 random_;
  std::shared_ptr<Runtime> runtime_;
  Timeline timeline_;
  Network network_;
  transport::MemoryFabric fabric_;
  transport::SimDisk disk_{[this] { return true_wall(now()); }};
  KvTruth kv_truth_;
  std::shared_ptr<transport::SimRecord> record_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Life>> dead_;  // their actors may still hold pointers into them
  std::vector<NodeId> owners_;               // by actor id
  std::vector<std::string> events_;
  std::vector<Instant> event_times_;
  Instant zero_{};  // of the times that readers see
  std::uint64_t hash_ = 0;
  std::uint64_t processes_ = 0;
  std::uint64_t messages_ = 0;
  std::map<std::pair<NodeId, NodeId>, transport::Fate> spoiled_;
  std::map<std::pair<NodeId, NodeId>, Nanos> slowed_;
  bool store_away_ = false;
  std::size_t dropped_by_drains_ = 0;
  Position context_ = 0;
};

}  // namespace shoal::sim
