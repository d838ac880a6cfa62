// Order of life: device, ports to other nodes, experts, launch queue, node, HTTP; torn down the
// other way round, the node before the sockets it answers through.
#include "tools/local_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "actors/log.h"
#include "tools/model_digest.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

constexpr Nanos kStartLimit = std::chrono::seconds(30);
constexpr Nanos kStopLimit = std::chrono::seconds(5);

EventLog::Sink sink_until(std::shared_ptr<const std::atomic<bool>> silent) {
  return [silent = std::move(silent), write = stderr_log_sink()](LogLevel level,
                                                                 std::string_view line) {
    if (!*silent) {
      write(level, line);
    }
  };
}

EventLog log_of(const Config& config, std::shared_ptr<const std::atomic<bool>> silent) {
  return {parse_log_level(config.log().level()).value_or(LogLevel::kInfo),
          sink_until(std::move(silent))};
}

// Where to choose another port.
Result<std::unique_ptr<HttpServer>> at_option(const char* option,
                                              Result<std::unique_ptr<HttpServer>> server) {
  if (!server) {
    return fail(server.error().code, std::string(option) + ": " + server.error().message);
  }
  return server;
}

std::vector<std::string> names_of(const ClusterPlan* cluster) {
  std::vector<std::string> names;
  if (cluster != nullptr) {
    for (const TopologyNode& node : cluster->topology.nodes) {
      names.push_back(node.name);
    }
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<LocalServer>> LocalServer::start(const Config& config) {
  return start(config, nullptr, NodeId{});
}

Result<std::unique_ptr<LocalServer>> LocalServer::start(const ClusterPlan& cluster, NodeId self) {
  return start(cluster.configs.at(self.value), &cluster, self);
}

Result<std::unique_ptr<LocalServer>> LocalServer::start(const Config& config,
                                                        const ClusterPlan* cluster,
                                                        NodeId self) {
  const NodeRoles roles =
      cluster == nullptr ? kAllRoles : cluster->topology.nodes.at(self.value).roles;
  TRY(ServerPlan plan, plan_server(config, roles));
  auto server = std::unique_ptr<LocalServer>(new LocalServer(config));
  const Topology* const topology = cluster == nullptr ? nullptr : &cluster->topology;
  if (topology != nullptr && has_expert_nodes(*topology)) {
    plan.device.config.yields_experts = true;
  }
  if (roles.has_device()) {
    TRY_VOID(server->open_device(plan.device));
  }
  if (cluster != nullptr) {
    // Not before the weights are loaded: a port that is open is taken for a node that answers.
    TRY(server->ports_, NodePorts::open(*cluster, self));
  }
  if (roles.experts || (roles.has_device() && plan.device.config.yields_experts)) {
    TRY_VOID(server->open_experts(config, plan.device, topology));
  } else if (topology != nullptr && has_expert_nodes(*topology)) {
    server->plans_ = std::make_unique<transport::ThreadScheduler>(monotonic_now);
  }
  server->open_launchers();
  TRY_VOID(server->open_node(config, plan));
  if (config.http().metrics_port() != 0) {
    TRY_VOID(server->open_pages(config, names_of(cluster)));
  }
  if (plan.front) {
    FrontPlan front = *std::move(plan.front);
    TRY_VOID(server->open_front(config, plan, std::move(front), names_of(cluster)));
  }
  if (!server->node_->wait_until_started(kStartLimit)) {
    return fail(Code::kInternal, "a part of the node did not start; see the log");
  }
  server->started_ = true;
  return server;
}

Result<void> LocalServer::open_device(DevicePlan plan) {
  plan.config.sim.time = {monotonic_now, [this](Instant when) { pause_.until(when); }};
  ProgressBar bar("loading");
  TRY(devices_,
      kernels::open_devices(
          plan.name, plan.config, plan.ranks, [&bar](std::int64_t done, std::int64_t total) {
            bar.update(done, total);
          }));
  return {};
}

// A process with shards alone reads no other weights.
Result<void> LocalServer::open_experts(const Config& config,
                                       const DevicePlan& plan,
                                       const Topology* topology) {
  if (devices_.empty()) {
    TRY(expert_device_, kernels::open_expert_device(plan.name, plan.config));
  }
  const auto make_engine = [this](const kernels::ExpertEngineLimits& limits) {
    return devices_.empty() ? expert_device_->make_expert_engine(limits)
                            : devices_.front()->make_expert_engine(limits);
  };
  ExpertPlace place;
  if (topology != nullptr) {
    place = {topology, ports_->self(), &ports_->transport()};
  }
  TRY(experts_, ShardedExperts::open(config.experts(), make_engine, place));
  return {};
}

void LocalServer::open_launchers() {
  for (const auto& device : devices_) {
    launchers_.push_back(std::make_unique<kernels::LaunchQueue>(
        device->backend(),
        monotonic_now,
        experts_ == nullptr ? kernels::ExchangeRunner() : experts_->node().runner()));
  }
}

Result<void> LocalServer::open_node(const Config& config, const ServerPlan& plan) {
  Parts parts{.shape = plan.device.shape,
              .devices = {},
              .clock = monotonic_now,
              .log = sink_until(silent_),
              .runtime = nullptr,
              .cluster = {},
              .kv = {},
              .expert_balance = {},
              .experts = {}};
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    parts.shape = devices_[r]->backend().shape();
    parts.devices.push_back({&devices_[r]->backend(), launchers_[r].get()});
  }
  if (expert_device_ != nullptr) {
    parts.shape.numeric_id = expert_device_->numeric_id();
  }
  if (experts_ != nullptr) {
    parts.experts = experts_->node().parts();
    parts.expert_balance = experts_->balance();
  } else if (plans_ != nullptr) {
    parts.expert_balance.background = plans_->port();
  }
  if (ports_ != nullptr) {
    TRY(std::string model, model_identity(plan.device));
    parts.cluster.emplace(ports_->parts({std::move(model), parts.shape.numeric_id}));
  }
  // Nodes without a directory in common would keep what none of them finds; a Ceph pool is.
  if (ports_ == nullptr || !config.kv().dir().empty() || config.kv().store() == "rados") {
    TRY(blocks_, open_blocks(config, log_of(config, silent_)));
  }
  if (blocks_ != nullptr) {
    TRY(KvIdentity identity, kv_identity(plan.device));
    parts.kv = {blocks_.get(), std::move(identity), unix_millis_now};
  }
  TRY(node_, build_node(config, std::move(parts)));
  return {};
}

Result<void> LocalServer::open_front(const Config& config,
                                     const ServerPlan& plan,
                                     FrontPlan front,
                                     std::vector<std::string> nodes) {
  const std::string& own_name = plan.device.model_name;
  model_name_ = config.model().served_name().empty() ? own_name : config.model().served_name();
  HttpParts parts = http_parts(std::move(nodes));
  parts.model.names = {model_name_};
  if (model_name_ != own_name) {
    parts.model.names.push_back(own_name);
  }
  parts.model.context_tokens = node_->context();
  parts.model.vocabulary_size = static_cast<TokenId>(plan.device.shape.vocab);
  parts.model.sampling = front.sampling;
  parts.model.created = unix_seconds_now();
  parts.model.tokenizer = std::move(front.tokenizer);
  // What a range of max_tokens says.
  front.profile.max_tokens_limit =
      static_cast<int>(std::min<std::int64_t>(front.profile.max_tokens_limit, node_->context()));
  parts.model.profile = std::make_shared<const ModelProfile>(std::move(front.profile));
  parts.seed = random_seed();
  parts.stream_limits = stream_limits(config);
  parts.default_mode = config.model().replay() == "exact" ? BasisMode::kExact : BasisMode::kBounded;
  TRY(http_, at_option("http.port", HttpServer::start(std::move(front.http), std::move(parts))));
  return {};
}

Result<void> LocalServer::open_pages(const Config& config, std::vector<std::string> nodes) {
  HttpConfig http;
  http.port = static_cast<std::uint16_t>(config.http().metrics_port());
  http.is_for_monitors = true;
  TRY(pages_,
      at_option("http.metrics_port",
                HttpServer::start(std::move(http), http_parts(std::move(nodes)))));
  return {};
}

HttpParts LocalServer::http_parts(std::vector<std::string> nodes) const {
  HttpParts parts{*node_, {}, {monotonic_now, unix_seconds_now}};
  parts.version = SHOAL_VERSION;
  parts.nodes = std::move(nodes);
  parts.node_metrics = [node = node_.get(), experts = experts_.get()](std::string& page) {
    page += node->metrics_text();
    if (experts != nullptr) {
      page += experts->node().metrics_text();
    }
  };
  parts.log = log_of(config_, silent_);
  return parts;
}

LocalServer::~LocalServer() {
  stop();
}

WorkLeft LocalServer::work_left() const {
  WorkLeft work;
  if (http_ != nullptr) {
    const HttpMetrics& metrics = http_->metrics();
    work.has_clients = true;
    work.answers = metrics.choices_waiting + metrics.choices_running;
    work.cut = metrics.clients_gone[static_cast<std::size_t>(ClientGone::kShutdown)];
  }
  work.routed = node_->metrics().ledger_open;
  work.has_memory = !devices_.empty();
  for (const auto& device : devices_) {
    const kernels::KvArena& arena = device->backend().arena();
    work.sequences += arena.sequences() - arena.free_sequences();
  }
  return work;
}

bool LocalServer::drain(Nanos limit) {
  const Instant deadline = monotonic_now() + limit;
  node_->start_draining(limit);
  const bool sent = http_ == nullptr || http_->drain(deadline);
  // Answers that were cut just now are still open in the node for a moment; one that gave up owes
  // nothing any more.
  const Nanos left = deadline - monotonic_now();
  return node_->drain(can_serve() ? std::max(left, kStopLimit) : Nanos{0}) && sent;
}

bool LocalServer::stop() {
  if (stopped_ || node_ == nullptr) {
    return true;
  }
  stopped_ = true;
  *silent_ = !started_;  // it never served: the error that says why is the one line
  pause_.end();
  const bool ended = node_->shut_down(kStopLimit);
  for (const auto& server : {http_.get(), pages_.get()}) {
    if (server != nullptr) {
      server->stop();
    }
  }
  return ended;
}

}  // namespace shoal::tools
