// The composition root: one configuration and the ports of one process in, a serving node out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/config.h"
#include "actors/device_port.h"
#include "actors/expert_group.h"
#include "actors/expert_parts.h"
#include "actors/front_door.h"
#include "actors/kv_names.h"
#include "actors/link.h"
#include "actors/log.h"
#include "actors/metrics.h"
#include "actors/stream.h"
#include "actors/topology.h"
#include "kernels/backend.h"
#include "kernels/launch_queue.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/cluster_store.h"
#include "transport/transport.h"

namespace shoal {

class ActorRuntime;

// Threads that run actors: the production runtime. `threads` from config.compute().actor_threads().
std::shared_ptr<ActorRuntime> make_actor_threads(int threads);

// What a node needs beside its configuration to be one of several.
struct ClusterParts {
  NodeId self;
  Topology topology;
  LinkPort& links;                  // stopped by Node::shut_down
  transport::Transport& transport;  // likewise
  transport::ClusterStore* store;   // at the membership's owner
  std::uint64_t process = 0;        // drawn at start: no two processes of a node have the same
  ModelIdentity identity{};         // nodes with another one are refused
};

// Everything outside the actors. All of it outlives the node.
struct Parts {
  kernels::ModelShape shape;
  std::vector<DevicePort> devices;        // the ranks, alike; none: no prefill and no decode
  std::function<Instant()> clock;         // monotonic, any thread
  EventLog::Sink log;                     // any thread
  std::shared_ptr<ActorRuntime> runtime;  // null: threads as configured
  std::optional<ClusterParts> cluster;    // none: this node is the whole cluster
  KvParts kv{};                           // without a store: every prompt is computed whole
  ExpertBalanceParts expert_balance{};    // without a group: no experts move
  ExpertParts experts{};                  // none: the device runs its experts itself
};

class Node : public FrontDoor {
 public:
  // Every part has answered once. False: some have not after `limit`.
  virtual bool wait_until_started(Nanos limit) = 0;
  // Other nodes send nothing new here, and answers that are decoded here move where there is room.
  // New requests of clients are refused, later attempts of open ones are not. `limit`: for the log.
  virtual void start_draining(Nanos limit) = 0;
  // The same, and what is open finishes, or goes on elsewhere. False: some was left after `limit`.
  virtual bool drain(Nanos limit) = 0;
  // Fails what is open, ends all actors, stops the launcher. False: an actor still runs after
  // `limit`; the process must then leave without destroying the node (std::_Exit). Idempotent.
  virtual bool shut_down(Nanos limit) = 0;
  // False for good: a part could not be kept alive, or the supervisor itself died; only another
  // process can serve. Any thread.
  virtual bool can_serve() const = 0;
  // Longest prompt plus answer, tokens.
  virtual Position context() const = 0;
  // Prometheus text of everything behind the front door.
  virtual std::string metrics_text() const = 0;
  virtual const NodeMetrics& metrics() const = 0;
  // As if the part had died ("decode_worker.0", "supervisor"): for drills and tests.
  virtual void end_part(std::string_view part) = 0;
};

// What the streams of the HTTP shards keep to.
StreamLimits stream_limits(const Config& config);

Result<std::unique_ptr<Node>> build_node(const Config& config, Parts parts);

}  // namespace shoal
