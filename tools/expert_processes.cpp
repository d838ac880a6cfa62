// A child tells its port, hears the parent's, says when it serves, and from then on answers every
// byte with the time that it computed; the end of its pipe is its end.
#include "tools/expert_processes.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "actors/expert_host.h"
#include "actors/expert_shards.h"
#include "tools/process_ports.h"
#include "transport/registry.h"

namespace shoal::tools {

namespace {

constexpr NodeId kParent{0};
constexpr IncarnationId kFirstLife{1};
constexpr char kAsk = '?';

template <class Value>
bool tell(int pipe, const Value& value) {
  return ::write(pipe, &value, sizeof(value)) == static_cast<ssize_t>(sizeof(value));
}

template <class Value>
bool hear(int pipe, Value& value) {
  auto* bytes = reinterpret_cast<char*>(&value);
  std::size_t come = 0;
  while (come < sizeof(value)) {
    const ssize_t some = ::read(pipe, bytes + come, sizeof(value) - come);
    if (some <= 0 && !(some < 0 && errno == EINTR)) {
      return false;
    }
    come += static_cast<std::size_t>(std::max<ssize_t>(0, some));
  }
  return true;
}

NodeId node_of(int child) {
  return NodeId{static_cast<std::uint32_t>(child + 1)};
}

Result<std::unique_ptr<transport::Transport>> open_loopback(NodeId self) {
  return transport::open_transport("tcp",
                                   {.self = self,
                                    .incarnation = kFirstLife,
                                    .cluster = "shoal-bench",
                                    .host = "127.0.0.1",
                                    .port = 0,
                                    .limits = {},
                                    .now = monotonic_now});
}

void know_peer(transport::Transport& transport, NodeId node, std::uint16_t port) {
  transport.set_peer({node, kFirstLife, "127.0.0.1", port});
}

Result<std::unique_ptr<kernels::ExpertDevice>> open_model(const std::string& model) {
  kernels::DeviceConfig config;
  config.model = model;
  return kernels::open_expert_device("cpu", config);
}

Result<ExpertPlacementMap> even_map(kernels::ExpertDevice& device, int count) {
  TRY(const auto probe, device.make_expert_engine({}));
  TRY(std::vector<ExpertLayer> layers, even_layers(probe->model(), count, 0));
  return ExpertPlacementMap{EpochId{1}, std::move(layers)};
}

// Adds up how long runs take.
class TimedEngine final : public kernels::ExpertEngine {
 public:
  TimedEngine(std::unique_ptr<kernels::ExpertEngine> engine, std::atomic<std::int64_t>& ns)
      : engine_(std::move(engine)),
        ns_(ns) {}

  const kernels::ExpertModel& model() const override { return engine_->model(); }

  Result<void> load(kernels::ExpertSlot slot, std::int32_t expert) override {
    return engine_->load(slot, expert);
  }

  Result<void> move(int layer, std::int32_t from, std::int32_t to) override {
    return engine_->move(layer, from, to);
  }

  void clear(kernels::ExpertSlot slot) override { engine_->clear(slot); }

  void publish(EpochId epoch) override { engine_->publish(epoch); }

  void retire() override { engine_->retire(); }

  void run(std::span<kernels::ExpertJob> jobs) override {
    const Instant began = monotonic_now();
    engine_->run(jobs);
    ns_ += (monotonic_now() - began).count();
  }

  kernels::ExpertEngineUse use() const override { return engine_->use(); }

 private:
  const std::unique_ptr<kernels::ExpertEngine> engine_;
  std::atomic<std::int64_t>& ns_;
};

// The life of a child.
Result<void> serve(const std::string& model, int child, int count, int from_parent, int to_parent) {
  std::atomic<std::int64_t> computed{0};
  transport::ThreadScheduler timers(monotonic_now);
  transport::ThreadScheduler executor(monotonic_now);
  TRY(const auto transport, open_loopback(node_of(child)));
  TRY(const auto exchange,
      transport::open_expert_exchange("shards",
                                      {.self = node_of(child),
                                       .timers = timers.port(),
                                       .transport = transport.get(),
                                       .limits = {}}));
  std::uint16_t parent = 0;
  if (!tell(to_parent, transport->port()) || !hear(from_parent, parent)) {
    return fail(Code::kUnavailable, "the parent ended");
  }
  know_peer(*transport, kParent, parent);
  TRY(const auto device, open_model(model));
  // Nothing else runs until all is loaded.
  const transport::Scheduler at_once{monotonic_now,
                                     [](Nanos, const std::function<void()>& run) { run(); }};
  ExpertHost host(
      {.shards = 1, .first_rank = static_cast<std::uint32_t>(child), .background = at_once},
      [&](const kernels::ExpertEngineLimits& limits) {
        return device->make_expert_engine(limits).map([&computed](auto engine) {
          return std::unique_ptr<kernels::ExpertEngine>(
              std::make_unique<TimedEngine>(std::move(engine), computed));
        });
      },
      *exchange,
      executor.port());
  const auto shard = host.begin(0);
  TRY(ExpertPlacementMap even, even_map(*device, count));
  const auto map = std::make_shared<const ExpertPlacementMap>(std::move(even));
  Result<void> loaded;
  shard->load(map, std::make_shared<std::atomic<bool>>(false), [&loaded](Result<void> outcome) {
    loaded = std::move(outcome);
  });
  TRY_VOID(loaded);
  shard->serve(map);
  char byte = kAsk;
  do {
    tell(to_parent, computed.load());
  } while (hear(from_parent, byte));
  return {};
}

}  // namespace

Result<std::unique_ptr<ExpertProcesses>> ExpertProcesses::start(const std::string& model,
                                                                int count) {
  auto self = std::unique_ptr<ExpertProcesses>(new ExpertProcesses());
  TRY_VOID(self->fork_all(model, count));
  TRY_VOID(self->connect(model));
  return self;
}

Result<void> ExpertProcesses::fork_all(const std::string& model, int count) {
  for (int child = 0; child < count; ++child) {
    int to[2];
    int from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) {
      return fail(Code::kUnavailable, "no pipe to a process of expert shards");
    }
    const pid_t process = ::fork();
    if (process == 0) {
      for (const Child& other : children_) {  // or they would outlive the parent
        ::close(other.to);
        ::close(other.from);
      }
      ::close(to[1]);
      ::close(from[0]);
      ::_exit(serve(model, child, count, to[0], from[1]) ? 0 : 1);
    }
    ::close(to[0]);
    ::close(from[1]);
    children_.push_back({process, to[1], from[0]});
    if (process < 0) {
      return fail(Code::kUnavailable, "no process for expert shards could be made");
    }
  }
  ::signal(SIGPIPE, SIG_IGN);
  return {};
}

Result<void> ExpertProcesses::connect(const std::string& model) {
  TRY(transport_, open_loopback(kParent));
  timers_ = std::make_unique<transport::ThreadScheduler>(monotonic_now);
  TRY(exchange_,
      transport::open_expert_exchange("shards",
                                      {.self = kParent,
                                       .timers = timers_->port(),
                                       .transport = transport_.get(),
                                       .limits = {}}));
  std::vector<ExpertHome> ranks;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const NodeId node = node_of(static_cast<int>(i));
    std::uint16_t port = 0;
    if (!hear(children_[i].from, port) || !tell(children_[i].to, transport_->port())) {
      return fail(Code::kUnavailable, "a process of expert shards ended");
    }
    know_peer(*transport_, node, port);
    ranks.push_back({node, 0});
  }
  for (const Child& child : children_) {
    std::int64_t served = 0;
    if (!hear(child.from, served)) {
      return fail(Code::kUnavailable, "a process of expert shards ended");
    }
  }
  dispatcher_ = std::make_unique<ExpertDispatcher>(
      *exchange_, std::move(ranks), timers_->port(), ExpertDispatchLimits{});
  TRY(const auto device, open_model(model));
  TRY(ExpertPlacementMap map, even_map(*device, static_cast<int>(children_.size())));
  return dispatcher_->publish(std::move(map));
}

ExpertProcesses::~ExpertProcesses() {
  for (const Child& child : children_) {
    ::close(child.to);
    ::close(child.from);
    if (child.process > 0) {
      ::waitpid(child.process, nullptr, 0);
    }
  }
}

kernels::ExchangeRunner ExpertProcesses::runner() {
  return [this](kernels::Exchange& exchange, std::function<void(Result<void>)> complete) {
    dispatcher_->run(exchange, std::move(complete));
  };
}

Result<Nanos> ExpertProcesses::computed() const {
  Nanos all{0};
  for (const Child& child : children_) {
    std::int64_t ns = 0;
    if (!tell(child.to, kAsk) || !hear(child.from, ns)) {
      return fail(Code::kUnavailable, "a process of expert shards ended");
    }
    all += Nanos{ns};
  }
  return all;
}

}  // namespace shoal::tools
