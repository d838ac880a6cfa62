// Builds all actors of a node and stands between them and other threads.
#include "actors/node.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "actors/actor_wait.h"
#include "actors/autoscaler.h"
#include "actors/cluster_group.h"
#include "actors/context.h"
#include "actors/decode_balancer.h"
#include "actors/decode_group.h"
#include "actors/decode_worker.h"
#include "actors/ep_balancer.h"
#include "actors/expert_shard.h"
#include "actors/expert_source.h"
#include "actors/expert_source_actor.h"
#include "actors/gateway.h"
#include "actors/interfaces.h"
#include "actors/kv_client.h"
#include "actors/membership.h"
#include "actors/peer.h"
#include "actors/policy/rows.h"
#include "actors/prefill_balancer.h"
#include "actors/prefill_group.h"
#include "actors/prefill_worker.h"
#include "actors/router.h"
#include "actors/supervisor.h"

namespace shoal {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class ActorThreads final : public ActorRuntime {
 public:
  explicit ActorThreads(int threads) : config_(threads), system_(config_) {}

  caf::actor_system& system() override { return system_; }

  bool wait_until_empty(Nanos limit) override { return shoal::wait_until_empty(system_, limit); }

 private:
  struct Settings : caf::actor_system_config {
    explicit Settings(int threads) {
      // Stealing polls and lets one flooded actor hold a thread; measured on CAF 0.17.6.
      set("scheduler.policy", caf::atom("sharing"));
      set("scheduler.max-threads", static_cast<std::size_t>(threads));
      set("scheduler.max-throughput", std::size_t{50});
    }
  };

  Settings config_;
  caf::actor_system system_;
};

CostCoefficients coefficients(const config::Cost& cost) {
  return {Nanos{cost.step_ns()}, cost.token_ps(), cost.pair_fs()};
}

Position context_limit(const Config& config,
                       const kernels::ModelShape& shape,
                       std::int64_t blocks) {
  const Position possible = std::min<Position>(shape.max_positions, blocks * kBlockTokens);
  return config.model().max_model_len() == 0
             ? possible
             : std::min<Position>(config.model().max_model_len(), possible);
}

DecodeMoveCost move_cost(const config::Decode& decode, const kernels::ModelShape& shape) {
  const auto token_bytes = static_cast<std::int64_t>(shape.block_bytes) / kBlockTokens;
  return {.fixed = microseconds(decode.move_us()),
          .token_ps = token_bytes * 1'000'000'000'000 / decode.move_bytes_per_s()};
}

AutoscaleOptions autoscale_options(const config::Autoscale& autoscale) {
  const auto shape = [&autoscale](std::int64_t target, auto least, auto most, auto spares) {
    return PoolShape{.ranks = 1,  // a node has one device
                     .target_permille = static_cast<int>(target),
                     .limit_permille = static_cast<int>(autoscale.limit_permille()),
                     .least = least,
                     .most = most,
                     .spares = spares};
  };
  return {.policy = find_row(autoscale_policies(), autoscale.policy()),
          .provisioner = find_row(provisioner_rows(), autoscale.provisioner()),
          .timing = {milliseconds(autoscale.bucket_ms()),
                     milliseconds(autoscale.provisioning_ms()),
                     milliseconds(autoscale.hold_ms()),
                     milliseconds(autoscale.outage_ms())},
          .token = milliseconds(autoscale.token_ms()),
          .prefill = shape(autoscale.prefill_permille(),
                           autoscale.prefill_least(),
                           autoscale.prefill_most(),
                           autoscale.prefill_spares()),
          .decode = shape(autoscale.decode_permille(),
                          autoscale.decode_least(),
                          autoscale.decode_most(),
                          autoscale.decode_spares())};
}

// One node: a move crosses none.
ExpertBalanceOptions balance_options(const config::Experts& experts) {
  const auto move_ns = static_cast<double>(Nanos(microseconds(experts.move_us())).count());
  return {
      .policy = find_row(expert_planners(), experts.policy()),
      .window = milliseconds(experts.window_ms()),
      .least_rows = experts.window_rows(),
      .limit = milliseconds(experts.place_ms()),
      .costs = {.layer_ns = static_cast<double>(Nanos(microseconds(experts.layer_us())).count()),
                .inside_ns = move_ns,
                .across_ns = move_ns}};
}

NodeOptions node_options(const Config& config) {
  const auto& prefill = config.prefill();
  const auto& decode = config.decode();
  const auto& request = config.request();
  const auto& supervisor = config.supervisor();
  NodeOptions options;
  options.prefill_cost = coefficients(prefill.cost());
  options.decode_cost = coefficients(decode.cost());
  options.prefill_bounds = {milliseconds(prefill.short_ms()),
                            milliseconds(prefill.medium_ms()),
                            milliseconds(prefill.long_ms())};
  options.prefill_limits = {microseconds(prefill.quota_us()),
                            milliseconds(prefill.kv_patience_ms()),
                            microseconds(std::min(prefill.least_quota_us(), prefill.quota_us()))};
  options.prefill_policy = find_prefill_policy(prefill.policy());
  options.prefill_queue = static_cast<std::size_t>(prefill.queue());
  options.prefill_group_queue = prefill.group_queue();
  options.decode_batch = decode.max_batch();
  options.decode_drafts = find_row(verify_policies(), decode.drafts());
  options.decode_steps_ahead = static_cast<std::size_t>(decode.steps_ahead());
  options.decode_policy = find_row(decode_policies(), decode.policy());
  options.decode_move_pause = milliseconds(decode.move_pause_ms());
  options.decode_queue = static_cast<std::size_t>(decode.queue());
  options.ceiling = static_cast<std::size_t>(request.ceiling());
  options.attempts = static_cast<std::uint32_t>(request.attempts());
  options.deadline = milliseconds(request.deadline_ms());
  options.request_limits = {milliseconds(request.queued_ms()),
                            milliseconds(request.prefilling_ms()),
                            milliseconds(request.queued_decode_ms()),
                            milliseconds(request.handing_over_ms()),
                            milliseconds(request.decoding_ms())};
  options.tick = milliseconds(request.tick_ms());
  options.health = {milliseconds(supervisor.heartbeat_ms()),
                    supervisor.suspect(),
                    supervisor.dead(),
                    milliseconds(supervisor.stall_ms())};
  options.restarts = supervisor.restarts();
  options.restart_window = milliseconds(supervisor.restart_window_ms());
  options.kv_load = milliseconds(config.kv().load_ms());
  options.kv_hedge = milliseconds(config.kv().hedge_ms());
  options.tails = {Bytes(config.kv().tail_bytes()), milliseconds(config.kv().tail_ms())};
  options.autoscale = autoscale_options(config.autoscale());
  options.expert_balance = balance_options(config.experts());
  options.kv_quota.bytes = Bytes(config.kv().tenant_bytes());
  return options;
}

Blueprint blueprint(caf::actor_system& system, const ContextPtr& node) {
  Blueprint blueprint;
  blueprint.prefill_worker = [&system, node](std::uint32_t rank) {
    return spawn_prefill_worker(system, node, part::prefill_worker(rank), rank);
  };
  blueprint.decode_worker = [&system, node](std::uint32_t rank) {
    return spawn_decode_worker(system, node, part::decode_worker(rank), rank);
  };
  blueprint.expert_shard = [&system, node](std::uint32_t shard) {
    return spawn_expert_shard(system, node, part::expert_shard(shard), shard);
  };
  blueprint.pipeline = [&system, node, workers = blueprint](Wiring& wiring) {
    NodeParts& parts = wiring.nodes[wiring.self.value];
    const NodeRoles& roles = node->roles;
    if (node->kv.store != nullptr && (roles.router || roles.has_device())) {
      wiring.kv_client = spawn_kv_client(system, node, part::kKvClient);
    }
    if (roles.router) {
      parts.router = spawn_router(system, node, part::kRouter);
      for (int k = 0; k < kPrefillClasses; ++k) {
        parts.prefill_balancers[static_cast<std::size_t>(k)] = spawn_prefill_balancer(
            system, node, part::kPrefillBalancer + static_cast<std::uint32_t>(k), k);
      }
      parts.decode_balancer = spawn_decode_balancer(system, node, part::kDecodeBalancer);
    }
    wiring.prefill_workers.clear();
    wiring.decode_workers.clear();
    parts.expert_shards.clear();
    if (node->experts.source != nullptr) {
      parts.expert_source = spawn_expert_source(system, node, part::kExpertSource);
    }
    for (std::uint32_t s = 0; s < node->experts.count(); ++s) {
      parts.expert_shards.push_back(workers.expert_shard(s));
    }
    if (roles.prefill) {
      parts.prefill_group = spawn_prefill_group(system, node, part::kPrefillGroup);
    }
    if (roles.decode) {
      parts.decode_group = spawn_decode_group(system, node, part::kDecodeGroup);
    }
    for (std::uint32_t r = 0; r < node->devices.size(); ++r) {
      if (roles.prefill) {
        wiring.prefill_workers.push_back(workers.prefill_worker(r));
      }
      if (roles.decode) {
        wiring.decode_workers.push_back(workers.decode_worker(r));
      }
    }
  };
  blueprint.peer = [&system, node](const SupervisorActor& supervisor, NodeId remote) {
    return spawn_peer(system, node, supervisor, remote);
  };
  blueprint.membership = [&system, node] { return spawn_membership(system, node); };
  blueprint.autoscaler = [&system, node] { return spawn_autoscaler(system, node); };
  blueprint.ep_balancer = [&system, node] { return spawn_ep_balancer(system, node); };
  return blueprint;
}

class ActorNode final : public Node {
 public:
  ActorNode(std::shared_ptr<ActorRuntime> runtime, ContextPtr context)
      : runtime_(std::move(runtime)),
        context_(std::move(context)) {
    caf::actor_system& system = runtime_->system();
    if (context_->roles.gateway) {
      gateway_ = spawn_gateway(system, context_, part::kGateway);
    }
    supervisor_ = spawn_supervisor(system, context_, gateway_, blueprint(system, context_));
    when_ended(supervisor_, [context = context_, stopping = stopping_] {
      // It took all parts along, and nobody is left to start them again.
      if (!*stopping) {
        context->serving = false;
        context->log.event(LogLevel::kError,
                           "node.dead",
                           {{"part", "supervisor"}, {"action", "restart the process"}});
      }
    });
    if (context_->cluster != nullptr) {
      context_->cluster->links->listen([supervisor = supervisor_](NodeId from, LinkPtr link) {
        notify(supervisor, LinkAccepted{from, std::move(link)});
      });
    }
  }

  ~ActorNode() override { shut_down(std::chrono::seconds(5)); }

  void attach(std::uint32_t shard, ShardInbox& inbox) override {
    context_->shards.attach(shard, inbox);
  }

  // 8 bits of the node, 16 of the process, 8 of the shard, 32 to count.
  RequestId first_request(std::uint32_t shard) const override {
    RequestId first = FrontDoor::first_request(shard & 0xFF);
    if (const ClusterContext* cluster = context_->cluster.get()) {
      first.value |=
          (std::uint64_t{cluster->self.value} << 56) | ((cluster->process & 0xFFFF) << 40);
    }
    return first;
  }

  void submit(Submission submission) override {
    if (!context_->serving || !context_->roles.gateway) {
      refuse(submission, "the node cannot serve: see /health");
      return;
    }
    if (*stopping_ || (context_->draining && submission.attempt.value <= 1)) {
      refuse(submission, "the node is stopping: send the request to another one");
      return;
    }
    if (submission.deadline == Instant{}) {
      submission.deadline = context_->now() + context_->options.deadline;
    }
    submission.gateway = self();
    notify(gateway_, Submit{std::make_shared<const Submission>(std::move(submission))});
  }

  void stop(RequestId request, AttemptId attempt, Position end) override {
    notify(gateway_, StopStream{{request, attempt}, end});
  }

  void closed(RequestId request) override { notify(gateway_, CloseRequest{request}); }

  NodeHealth health() const override {
    const HealthLimits& limits = context_->options.health;
    NodeHealth health = context_->health.read(context_->now(), limits.heartbeat * limits.dead);
    if (context_->draining && health.state != PartState::kDead) {
      health.state = PartState::kDraining;
    }
    return health;
  }

  std::optional<RequestTimeline> explain(RequestId request) const override {
    return context_->timelines.find(request);
  }

  bool wait_until_started(Nanos limit) override {
    return context_->health.wait_until_started(limit);
  }

  void start_draining(Nanos limit) override {
    if (!context_->draining.exchange(true)) {
      context_->log.event(LogLevel::kInfo, "node.draining", {{"limit_ns", limit}});
      if (context_->serving) {
        context_->open.add(1);  // until the supervisor knows who has to be told
        notify(supervisor_, DrainNode{});
      }
    }
  }

  bool drain(Nanos limit) override {
    start_draining(limit);
    return context_->open.wait_until_none(limit);
  }

  bool shut_down(Nanos limit) override {
    if (!stopping_->exchange(true)) {
      end_actor(supervisor_);  // takes all others with it
      supervisor_ = nullptr;
      gateway_ = nullptr;
      empty_ = runtime_->wait_until_empty(limit);
      for (const DevicePort& device : context_->devices) {
        device.launcher->stop();
      }
      if (context_->cluster != nullptr) {
        context_->cluster->links->stop();
        context_->cluster->transport->stop();
      }
      if (context_->kv.store != nullptr) {
        context_->kv.store->stop();
      }
      context_->log.event(LogLevel::kInfo, "node.stopped", {{"empty", empty_}});
    }
    return empty_;
  }

  bool can_serve() const override { return context_->serving; }

  Position context() const override { return context_->options.context; }

  std::string metrics_text() const override {
    NodeMetrics& metrics = context_->metrics;
    std::int64_t blocks = 0;
    std::int64_t blocks_free = 0;
    std::int64_t sequences = 0;
    std::int64_t sequences_free = 0;
    for (const DevicePort& device : context_->devices) {
      const kernels::KvArena& arena = device.backend->arena();
      blocks += arena.blocks();
      blocks_free += arena.free_blocks();
      sequences += arena.sequences();
      sequences_free += arena.free_sequences();
    }
    metrics.kv_blocks = blocks;
    metrics.kv_blocks_free = blocks_free;
    metrics.kv_sequences = sequences;
    metrics.kv_sequences_free = sequences_free;
    const transport::BlockStore* store = context_->kv.store;
    std::string text = metrics.text();
    if (store != nullptr) {
      text += kv_store_text(store->use());
    }
    if (const ExpertGroup* group = context_->expert_balance.group) {
      text += context_->expert_board.text(group->placement().epoch);
    } else if (const ExpertSource* source = context_->experts.source) {
      const ExpertMapPtr placement = source->placement();
      text +=
          context_->expert_board.loads_text(placement == nullptr ? EpochId{} : placement->epoch);
    }
    return text;
  }

  const NodeMetrics& metrics() const override { return context_->metrics; }

  void end_part(std::string_view part) override {
    if (part == "supervisor") {
      end_actor(supervisor_);
    } else {
      notify(supervisor_, EndPart{std::string(part)});
    }
  }

 private:
  NodeId self() const { return context_->cluster == nullptr ? NodeId{} : context_->cluster->self; }

  void refuse(const Submission& submission, const char* reason) const {
    if (ShardInbox* inbox = context_->shards.find(submission.shard)) {
      inbox->fail({submission.request,
                   submission.attempt,
                   Error{Code::kUnavailable, reason},
                   false,
                   std::chrono::seconds(1)});
    }
  }

  std::shared_ptr<ActorRuntime> runtime_;
  ContextPtr context_;
  GatewayActor gateway_;
  SupervisorActor supervisor_;
  // Of the supervisor's end, too, which may come behind this object's.
  std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  bool empty_ = false;
};

}  // namespace

std::shared_ptr<ActorRuntime> make_actor_threads(int threads) {
  return std::make_shared<ActorThreads>(threads);
}

StreamLimits stream_limits(const Config& config) {
  const auto& stream = config.stream();
  StreamLimits limits;
  limits.attempts = static_cast<std::uint32_t>(config.request().attempts());
  limits.held_tokens = stream.held_tokens();
  limits.hold = milliseconds(stream.hold_ms());
  limits.progress = milliseconds(stream.progress_ms());
  limits.first_token = milliseconds(stream.first_token_ms());
  return limits;
}

namespace {

Result<void> join_cluster(const Config& config, ClusterParts parts, NodeContext& context) {
  const auto& nodes = parts.topology.nodes;
  if (parts.self.value >= nodes.size() || parts.topology.owner.value >= nodes.size()) {
    return fail(Code::kMisconfigured, "the topology has no such node");
  }
  if (parts.self == parts.topology.owner && parts.store == nullptr) {
    return fail(Code::kInternal, "the owner of the membership needs the cluster store");
  }
  context.roles = nodes[parts.self.value].roles;
  const auto& link = config.link();
  context.cluster.reset(
      new ClusterContext{.self = parts.self,
                         .topology = std::move(parts.topology),
                         .limits = {static_cast<std::size_t>(link.message_bytes()),
                                    static_cast<std::size_t>(link.window_bytes()),
                                    static_cast<std::size_t>(link.queue_bytes())},
                         .links = &parts.links,
                         .transport = &parts.transport,
                         .store = parts.store,
                         .process = parts.process & ((std::uint64_t{1} << (64 - kLifeBits)) - 1),
                         .identity = std::move(parts.identity),
                         .incarnation = 0});
  return {};
}

// One balancer a cluster, beside the membership.
void open_cluster_experts(NodeContext& context) {
  const ClusterContext* cluster = context.cluster.get();
  if (cluster == nullptr || cluster->self != cluster->topology.owner ||
      !has_expert_nodes(cluster->topology) || !context.expert_balance.background.defer) {
    return;
  }
  context.cluster_experts =
      std::make_shared<ClusterGroup>(context.now, cluster->process << kLifeBits);
  context.expert_balance.group = context.cluster_experts.get();
}

}  // namespace

Result<std::unique_ptr<Node>> build_node(const Config& config, Parts parts) {
  TRY_VOID(validate(config));
  const auto level = parse_log_level(config.log().level());
  if (!level) {
    return fail(Code::kMisconfigured, "log.level: unknown level \"" + config.log().level() + "\"");
  }
  NodeOptions options = node_options(config);
  options.kv_blocks = parts.devices.empty() ? kv_blocks(config, parts.shape.block_bytes)
                                            : parts.devices.front().backend->arena().blocks();
  options.decode_move = move_cost(config.decode(), parts.shape);
  options.context = context_limit(config, parts.shape, options.kv_blocks);
  if (options.context < 2) {
    return fail(Code::kMisconfigured,
                "kv.blocks: KV memory holds no request; give at least one block");
  }
  ContextPtr context(new NodeContext{
      .options = std::move(options),
      .shape = parts.shape,
      .roles = kAllRoles,
      .devices = std::move(parts.devices),
      .now = std::move(parts.clock),
      .log = EventLog(*level, std::move(parts.log)),
      .metrics = {},
      .shards = {},
      .open = {},
      .health = {},
      .timelines = TimelineBoard(static_cast<std::size_t>(config.request().timelines())),
      .serving = true,
      .cluster = {},
      .buffers = 0,
      .kv = std::move(parts.kv),
      .experts = parts.experts});
  context->expert_balance = std::move(parts.expert_balance);
  if (parts.cluster) {
    TRY_VOID(join_cluster(config, *std::move(parts.cluster), *context));
  }
  open_cluster_experts(*context);
  if (context->roles.experts != (context->experts.host != nullptr)) {
    return fail(Code::kInternal, "a node hosts expert shards if and only if it has that role");
  }
  if (context->roles.has_device() == context->devices.empty()) {
    return fail(Code::kInternal, "a node has a device if and only if it prefills or decodes");
  }
  auto runtime = parts.runtime ? std::move(parts.runtime)
                               : make_actor_threads(config.compute().actor_threads());
  return std::make_unique<ActorNode>(std::move(runtime), std::move(context));
}

}  // namespace shoal
