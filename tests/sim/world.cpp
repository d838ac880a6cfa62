// The loop over ready actors and due events, and the lives of the nodes.
#include "tests/sim/world.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include <caf/scheduler/test_coordinator.hpp>

#include "actors/caf.h"
#include "tests/sim/node_ports.h"

namespace shoal::sim {

class World::Runtime final : public ActorRuntime {
 public:
  Runtime()
      : system_(settings_),
        scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())) {}

  ~Runtime() override { scheduler().clock().cancel_all(); }

  caf::actor_system& system() override { return system_; }

  caf::scheduler::test_coordinator& scheduler() { return scheduler_; }

  // The world runs what is left of a node with all others.
  bool wait_until_empty(Nanos) override { return true; }

 private:
  struct Settings : caf::actor_system_config {
    Settings() { set("scheduler.policy", caf::atom("testing")); }
  };

  Settings settings_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
};

World::World(const WorldSetup& setup)
    : setup_(setup),
      random_(setup.seed),
      runtime_(std::make_shared<Runtime>()),
      timeline_([this] { return now(); }),
      network_(timeline_,
               [this](NodeId from, NodeId to) {
                 const auto slowed = slowed_.find(std::minmax(from, to));
                 return Nanos{static_cast<std::int64_t>(20'000 + random_() % 200'000)} +
                        (slowed == slowed_.end() ? Nanos{0} : slowed->second);
               }),
      fabric_({timeline_.scheduler(),
               [this](NodeId from, NodeId to, Bytes size) {
                 transport::Verdict verdict;
                 verdict.delay = Nanos{static_cast<std::int64_t>(
                     20'000 + random_() % 200'000 + static_cast<std::uint64_t>(size.value) / 4)};
                 const bool stopped = hosts_[from.value].paused || hosts_[to.value].paused;
                 const auto spoiled = spoiled_.find(std::minmax(from, to));
                 if (stopped || network_.is_cut(from, to)) {
                   verdict.fate = transport::Fate::kDrop;
                 } else if (spoiled != spoiled_.end()) {
                   verdict.fate = spoiled->second;
                 }
                 return verdict;
               }}),
      kv_truth_(timeline_, setup.model.weights == nullptr),
      record_(std::make_shared<transport::SimRecord>()) {
  config_.mutable_log()->set_level("debug");
  if (setup_.configure) {
    setup_.configure(config_);
  }
  node_config_ = config_;
  if (setup_.tamper.configure) {
    setup_.tamper.configure(node_config_);
  }
  network_.tamper(setup_.tamper.messages);
  for (std::size_t n = 0; n < setup_.nodes.size(); ++n) {
    topology_.nodes.push_back(
        {.name = "n" + std::to_string(n), .roles = setup_.nodes[n], .host = "sim"});
    if (setup_.nodes[n].experts) {
      topology_.nodes.back().expert_shards =
          static_cast<std::uint32_t>(std::max(1, node_config_.experts().shards()));
    }
    hosts_.emplace_back().roles = setup_.nodes[n];
  }
  topology_.hash = 1;
  count_time();
  for (std::uint32_t n = 0; n < hosts_.size(); ++n) {
    start(NodeId{n});
  }
}

World::~World() {
  for (std::uint32_t n = 0; n < hosts_.size(); ++n) {
    if (hosts_[n].life) {
      kill(NodeId{n});
    }
  }
  runtime_->scheduler().clock().cancel_all();
  timeline_.clear();
  while (runtime_->scheduler().try_run_once()) {
  }
}

void World::start(NodeId node) {
  Host& host = hosts_[node.value];
  host.life = std::make_unique<Life>();
  host.draining = false;
  host.away_since.reset();
  host.runs_since = now();
  host.stops.clear();
  Life& life = *host.life;
  life.clock = std::make_unique<NodeClock>(
      [this] { return now(); },
      std::chrono::microseconds(static_cast<std::int64_t>(random_() % 86'400'000'000ULL)));
  host.clock = life.clock.get();
  life.process = IncarnationId{++processes_};
  Parts parts{.shape = {},
              .devices = {},
              .clock = [clock = host.clock] { return clock->now(); },
              .log =
                  [this, node](LogLevel, std::string_view line) {
                    tell(node, std::string(line));
                    note(std::hash<std::string_view>{}(line));
                  },
              .runtime = runtime_,
              .cluster = {},
              .kv = {},
              .expert_balance = {},
              .experts = {}};
  life.links = with_clock(network_.open(node), *host.clock);
  life.transport = with_clock(
      fabric_.open(node, life.process, setup_.transport), *host.clock, setup_.tamper.fetched);
  open_devices(node, life);
  parts.shape = life.devices.front()->backend().shape();
  context_ = std::min<Position>(parts.shape.max_positions, setup_.size.blocks * kBlockTokens);
  if (host.roles.has_device()) {
    for (const auto& device : life.devices) {
      parts.devices.push_back({&device->backend(), device.get()});
    }
  }
  if (life.experts != nullptr) {
    parts.experts = life.experts->parts();
  }
  if (node == topology_.owner) {
    life.store = transport::make_sim_store(
        {record_,
         {parts.clock,
          [this](Nanos delay, std::function<void()> run) {
            timeline_.after(delay, std::move(run));
          }},
         [this](bool) {
           transport::StoreVerdict verdict;
           verdict.there = std::chrono::microseconds(static_cast<std::int64_t>(random_() % 2'000));
           verdict.back = verdict.there;
           if (store_away_) {
             verdict.fate = random_() % 2 == 0 ? transport::StoreFate::kLostCall
                                               : transport::StoreFate::kLostAnswer;
           }
           return verdict;
         }});
  }
  parts.cluster.emplace(ClusterParts{.self = node,
                                     .topology = topology_,
                                     .links = *life.links,
                                     .transport = *life.transport,
                                     .store = life.store.get(),
                                     .process = life.process.value,
                                     .identity = setup_.identities[node]});
  if (setup_.keeps_kv) {
    open_blocks(node, life);
    parts.kv = {life.blocks.get(), kv_identity(""), [clock = host.clock] { return clock->wall(); }};
  }
  parts.expert_balance = expert_balance(node, life);
  const auto clock = parts.clock;
  auto built = build_node(node_config_, std::move(parts));
  if (!built) {
    throw std::runtime_error(built.error().message);
  }
  life.node = *std::move(built);
  own_new_actors(node);
  if (host.roles.gateway) {
    life.clients = std::make_unique<testing::Clients>(*life.node, clock, setup_.stream);
    life.clients->set_unread_limit(setup_.tamper.unread.value_or(setup_.unread_tokens));
  }
}

void World::kill(NodeId node) {
  say(node, "world.kill");
  Host& host = hosts_.at(node.value);
  std::unique_ptr<Life> life = std::move(host.life);
  if (life->experts != nullptr && life->experts->loading()) {
    tell(node, "world.kill_while_loading");
  }
  host.paused = false;
  host.away_since = now();
  network_.sever(node);
  fabric_.set_alive(node, life->process, false);
  for (const auto& device : life->devices) {
    device->stop();
  }
  if (life->disk) {
    life->disk->die();
  }
  if (life->clients) {
    life->clients->reset_connections();
  }
  life->node->shut_down(Nanos{0});
  if (life->experts) {
    life->experts->stop();
  }
  dead_.push_back(std::move(life));
}

void World::restart(NodeId node) {
  say(node, "world.restart");
  start(node);
}

void World::pause(NodeId node, bool paused) {
  if (hosts_.at(node.value).paused == paused) {
    return;
  }
  say(node, paused ? "world.pause" : "world.resume");
  Host& host = hosts_.at(node.value);
  host.paused = paused;
  if (paused) {
    host.away_since = now();
    host.stops.emplace_back(now_at(node), now_at(node));
  } else if (host.life) {
    host.stops.back().second = now_at(node);
    host.away_since.reset();
    host.runs_since = now();
  }
  if (host.life) {
    for (const auto& device : host.life->devices) {
      device->hold(paused);
    }
  }
  if (NodeStore* disk = disk_of(node)) {
    disk->stop(paused);
  }
}

Instant World::due_at(NodeId node, Instant due) const {
  for (const auto& [from, to] : hosts_.at(node.value).stops) {
    due += from < due ? to - from : Nanos{0};
  }
  return due;
}

void World::drain(NodeId node) {
  Host& host = hosts_.at(node.value);
  if (host.draining) {
    return;
  }
  say(node, "world.drain");
  host.draining = true;
  host.life->node->start_draining(Nanos{0});
  const Nanos declared = std::chrono::milliseconds(config_.request().drain_ms());
  go_on(
      {node, host.life->process, now() + setup_.tamper.drain.value_or(declared), now() + declared});
}

void World::go_on(const Drain& drain) {
  const Host& host = hosts_.at(drain.node.value);
  if (!host.life || host.life->process != drain.process) {
    return;
  }
  const std::size_t open = host.life->clients ? host.life->clients->open() : 0;
  const bool is_over = open == 0 && host.life->node->drain(Nanos{0});
  if (host.paused || (!is_over && now() < drain.limit)) {
    timeline_.after(std::chrono::milliseconds(5), [this, drain] { go_on(drain); });
    return;
  }
  dropped_by_drains_ += now() < drain.declared ? open : 0;
  kill(drain.node);
}

void World::say(NodeId node, const std::string& event) {
  tell(node, event);
  note(std::hash<std::string>{}(event));
}

void World::tell(NodeId node, const std::string& event) {
  events_.push_back("n" + std::to_string(node.value) + " " + event);
  event_times_.push_back(now());
}

std::string World::timed_event(std::size_t index) const {
  constexpr std::size_t kColumns = 11;
  const std::string ms = ms_text(event_times_.at(index));
  return std::string(kColumns - std::min(kColumns, ms.size()), ' ') + ms + " " + events_.at(index);
}

std::string World::ms_text(Instant when) const {
  std::array<char, 32> text{};
  const double ms = std::chrono::duration<double, std::milli>(when - zero_).count();
  std::snprintf(text.data(), text.size(), "%.3f", ms);
  return text.data();
}

Instant World::now() const {
  return Instant(
      std::chrono::duration_cast<Nanos>(runtime_->scheduler().clock().now().time_since_epoch()) +
      std::chrono::hours(1));
}

void World::note(std::uint64_t value) {
  hash_ = (hash_ ^ value) * 0x100000001B3ULL;  // FNV-1a's prime
}

void World::own_new_actors(NodeId node) {
  owners_.resize(runtime_->system().latest_actor_id() + 1, node);
}

NodeId World::owner_of_job(std::size_t job) const {
  const caf::resumable* ready = runtime_->scheduler().jobs[job];
  if (ready->subtype() != caf::resumable::scheduled_actor) {
    return NodeId{0};
  }
  const caf::actor_id actor = static_cast<const caf::scheduled_actor*>(ready)->id();
  return actor < owners_.size() ? owners_[actor] : NodeId{0};
}

// One message of one ready actor whose node is not stopped, as the seed says.
bool World::run_ready_actor() {
  auto& jobs = runtime_->scheduler().jobs;
  if (jobs.empty()) {
    return false;
  }
  const std::size_t start = random_() % jobs.size();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::size_t ready = (start + i) % jobs.size();
    const NodeId node = owner_of_job(ready);
    if (!hosts_[node.value].paused) {
      const auto place = jobs.begin() + static_cast<std::ptrdiff_t>(ready);
      std::rotate(jobs.begin(), place, place + 1);
      note(node.value);
      ++messages_;
      runtime_->scheduler().try_run_once();
      own_new_actors(node);
      return true;
    }
  }
  return false;
}

bool World::step() {
  if (timeline_.run_due()) {
    return true;
  }
  if (run_ready_actor()) {
    // Handlers take time, so that timers fire between any two of them.
    runtime_->scheduler().advance_time(Nanos{static_cast<std::int64_t>(random_() % 20'000)});
    return true;
  }
  return false;
}

void World::pass_time_of_clients() {
  for (Host& host : hosts_) {
    if (host.life && host.life->clients && !host.paused) {
      host.life->clients->pass_time();
    }
  }
}

bool World::run(const std::function<bool()>& until, Nanos limit) {
  const Instant end = now() + limit;
  while (!until()) {
    if (now() >= end) {
      return false;
    }
    pass_time_of_clients();
    if (step()) {
      continue;
    }
    Instant next = end;
    if (const auto event = timeline_.next()) {
      next = std::min(next, *event);
    }
    const auto& timeouts = runtime_->scheduler().clock().schedule();
    if (!timeouts.empty()) {
      const Nanos ahead = timeouts.begin()->first - runtime_->scheduler().clock().now();
      next = std::min(next, now() + std::max(Nanos{0}, ahead));
    }
    runtime_->scheduler().advance_time(next - now());
  }
  return true;
}

namespace {

// Damage that the KV store met is told for a while after it was the last: it is no part that is
// missing.
bool is_at_work(const PartHealth& part) {
  return part.state == PartState::kOk || part.state == PartState::kBusy ||
         part.cause.starts_with("the KV store has damage");
}

bool is_whole(const NodeHealth& health) {
  return health.state == PartState::kOk || health.state == PartState::kBusy ||
         (!health.parts.empty() && std::ranges::all_of(health.parts, is_at_work));
}

}  // namespace

bool World::run_until_whole(Nanos limit) {
  return run(
      [this] {
        return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
          return !host.life || is_whole(host.life->node->health());
        });
      },
      limit);
}

std::int64_t World::count_nodes(bool prefill) const {
  return std::count_if(hosts_.begin(), hosts_.end(), [prefill](const Host& host) {
    return prefill ? host.roles.prefill : host.roles.decode;
  });
}

// The clients of a process that is gone have all been reset.
bool World::all_over() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.life || !host.life->clients || host.life->clients->open() == 0;
  });
}

bool World::run_until_all_over(Nanos limit) {
  return run([this] { return all_over(); }, limit);
}

bool World::memory_is_free() {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.life || std::all_of(host.life->devices.begin(),
                                     host.life->devices.end(),
                                     [](const auto& device) { return device->memory_is_free(); });
  });
}

std::string World::believed_answers() const {
  std::string believed;
  for (std::uint32_t n = 0; n < hosts_.size(); ++n) {
    if (!hosts_[n].life) {
      continue;
    }
    const NodeMetrics& metrics = hosts_[n].life->node->metrics();
    const auto add = [&believed, n](const char* where, std::int64_t count) {
      if (count != 0) {
        believed += (believed.empty() ? "n" : ", n") + std::to_string(n) + " " + where + " " +
                    std::to_string(count);
      }
    };
    add("gateway", metrics.gateway_open);
    add("ledger", metrics.ledger_open);
    add("waiting for decode", metrics.decode_queued);
    add("in decode", metrics.decode_live);
    for (const auto& queued : metrics.prefill_queued) {
      add("waiting for prefill", queued);
    }
  }
  return believed;
}

bool World::nothing_offered() {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.life || host.life->transport->use().offers == 0;
  });
}

}  // namespace shoal::sim
