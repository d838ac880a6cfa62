// Builds all actors of a node and stands between them and other threads.
#include "actors/node.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "actors/context.h"
#include "actors/decode_balancer.h"
#include "actors/decode_group.h"
#include "actors/decode_worker.h"
#include "actors/gateway.h"
#include "actors/interfaces.h"
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

  bool wait_until_empty(Nanos limit) override {
    // CAF waits for its actors without a limit only. A thread that still waits then ends with the
    // process: see Node::shut_down.
    auto empty = std::make_shared<std::promise<void>>();
    std::thread([&registry = system_.registry(), empty] {
      registry.await_running_count_equal(0);
      empty->set_value();
    }).detach();
    return empty->get_future().wait_for(limit) == std::future_status::ready;
  }

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
                       const kernels::KvArena& arena) {
  const Position possible = std::min<Position>(shape.max_positions, arena.blocks() * kBlockTokens);
  return config.model().max_model_len() == 0
             ? possible
             : std::min<Position>(config.model().max_model_len(), possible);
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
                            milliseconds(prefill.kv_patience_ms())};
  options.prefill_queue = static_cast<std::size_t>(prefill.queue());
  options.prefill_group_queue = prefill.group_queue();
  options.decode_batch = decode.max_batch();
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
  blueprint.pipeline = [&system, node, workers = blueprint](const SupervisorActor& supervisor,
                                                            const GatewayActor& gateway) {
    Wiring wiring;
    wiring.supervisor = supervisor;
    wiring.gateway = gateway;
    wiring.router = spawn_router(system, node, part::kRouter);
    for (int k = 0; k < kPrefillClasses; ++k) {
      wiring.prefill_balancers[static_cast<std::size_t>(k)] = spawn_prefill_balancer(
          system, node, part::kPrefillBalancer + static_cast<std::uint32_t>(k), k);
    }
    wiring.prefill_group = spawn_prefill_group(system, node, part::kPrefillGroup);
    wiring.decode_balancer = spawn_decode_balancer(system, node, part::kDecodeBalancer);
    wiring.decode_group = spawn_decode_group(system, node, part::kDecodeGroup);
    for (std::uint32_t r = 0; r < node->devices.size(); ++r) {
      wiring.prefill_workers.push_back(workers.prefill_worker(r));
      wiring.decode_workers.push_back(workers.decode_worker(r));
    }
    return wiring;
  };
  return blueprint;
}

class ActorNode final : public Node {
 public:
  ActorNode(std::shared_ptr<ActorRuntime> runtime, ContextPtr context)
      : runtime_(std::move(runtime)),
        context_(std::move(context)) {
    caf::actor_system& system = runtime_->system();
    gateway_ = spawn_gateway(system, context_, part::kGateway);
    supervisor_ = spawn_supervisor(system, context_, gateway_, blueprint(system, context_));
  }

  ~ActorNode() override { shut_down(std::chrono::seconds(5)); }

  void attach(std::uint32_t shard, ShardInbox& inbox) override {
    context_->shards.attach(shard, inbox);
  }

  void submit(Submission submission) override {
    if (!context_->serving) {
      refuse(submission, "the node cannot serve: see /health");
      return;
    }
    if (stopping_ || (draining_ && submission.attempt.value <= 1)) {
      refuse(submission, "the node is stopping: send the request to another one");
      return;
    }
    if (submission.deadline == Instant{}) {
      submission.deadline = context_->now() + context_->options.deadline;
    }
    notify(gateway_, Submit{std::make_shared<const Submission>(std::move(submission))});
  }

  void stop(RequestId request, AttemptId attempt, Position end) override {
    notify(gateway_, StopStream{{request, attempt}, end});
  }

  void closed(RequestId request) override { notify(gateway_, CloseRequest{request}); }

  NodeHealth health() const override {
    const HealthLimits& limits = context_->options.health;
    NodeHealth health = context_->health.read(context_->now(), limits.heartbeat * limits.dead);
    if (draining_ && health.state != PartState::kDead) {
      health.state = PartState::kDraining;
    }
    return health;
  }

  bool wait_until_started(Nanos limit) override {
    return context_->health.wait_until_started(limit);
  }

  bool drain(Nanos limit) override {
    draining_ = true;
    context_->log.event(LogLevel::kInfo, "node.draining", {{"limit_ns", limit}});
    return context_->open.wait_until_none(limit);
  }

  bool shut_down(Nanos limit) override {
    if (!stopping_.exchange(true)) {
      end_actor(supervisor_);  // takes all others with it
      supervisor_ = nullptr;
      gateway_ = nullptr;
      empty_ = runtime_->wait_until_empty(limit);
      context_->devices.front().launcher->stop();
      context_->log.event(LogLevel::kInfo, "node.stopped", {{"empty", empty_}});
    }
    return empty_;
  }

  Position context() const override { return context_->options.context; }

  std::string metrics_text() const override {
    NodeMetrics& metrics = context_->metrics;
    const kernels::KvArena& arena = context_->devices.front().backend->arena();
    metrics.kv_blocks = arena.blocks();
    metrics.kv_blocks_free = arena.free_blocks();
    metrics.kv_sequences = arena.sequences();
    metrics.kv_sequences_free = arena.free_sequences();
    return metrics.text();
  }

  void end_part(std::string_view part) override { notify(supervisor_, EndPart{std::string(part)}); }

 private:
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
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopping_{false};
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

Result<std::unique_ptr<Node>> build_node(const Config& config, Parts parts) {
  TRY_VOID(validate(config));
  const auto level = parse_log_level(config.log().level());
  if (!level) {
    return fail(Code::kMisconfigured, "log.level: unknown level \"" + config.log().level() + "\"");
  }
  NodeOptions options = node_options(config);
  options.context = context_limit(config, parts.backend.shape(), parts.backend.arena());
  if (options.context < 2) {
    return fail(Code::kMisconfigured,
                "kv.blocks: KV memory holds no request; give at least one block");
  }
  ContextPtr context(new NodeContext{.options = std::move(options),
                                     .shape = parts.backend.shape(),
                                     .devices = {{&parts.backend, &parts.launcher}},
                                     .now = std::move(parts.clock),
                                     .log = EventLog(*level, std::move(parts.log)),
                                     .metrics = {},
                                     .shards = {},
                                     .open = {},
                                     .health = {},
                                     .serving = true});
  auto runtime = parts.runtime ? std::move(parts.runtime)
                               : make_actor_threads(config.compute().actor_threads());
  return std::make_unique<ActorNode>(std::move(runtime), std::move(context));
}

}  // namespace shoal
