// The testing runtime, a launcher whose steps complete when the world says so, and the seeded loop
// over both.
#include "tests/actors/node_world.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <utility>
#include <variant>

#include <caf/scheduler/test_coordinator.hpp>

#include "actors/caf.h"

namespace shoal::testing {

class TestingRuntime final : public ActorRuntime {
 public:
  TestingRuntime() : system_(config_) {}

  // Periodic ticks would keep CAF's own shutdown busy for ever.
  ~TestingRuntime() override { scheduler().clock().cancel_all(); }

  caf::actor_system& system() override { return system_; }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  bool wait_until_empty(Nanos) override {
    while (scheduler().try_run_once()) {
    }
    return system_.registry().running() == 0;
  }

 private:
  struct Settings : caf::actor_system_config {
    Settings() { set("scheduler.policy", caf::atom("testing")); }
  };

  Settings config_;
  caf::actor_system system_;
};

class HeldLauncher final : public kernels::Launcher {
 public:
  HeldLauncher(kernels::SimBackend& backend, const kernels::StepCost& cost)
      : backend_(backend),
        cost_(cost) {}

  void launch(kernels::Launch launch) override { add(launch.plan.queue, std::move(launch)); }

  void copy_out(kernels::KvExport copy) override { add(copy.queue, std::move(copy)); }

  void copy_in(kernels::KvImport copy) override { add(copy.queue, std::move(copy)); }

  void stop() override {
    for (auto& queue : queues_) {
      queue.clear();
    }
  }

  bool idle() const {
    return std::all_of(
        queues_.begin(), queues_.end(), [](const auto& queue) { return queue.empty(); });
  }

  // Completes the oldest step or copy of a queue.
  bool complete(std::size_t queue) {
    if (queues_[queue].empty()) {
      return false;
    }
    Work work = std::move(queues_[queue].front());
    queues_[queue].pop_front();
    const bool breaks = failures_left_ > 0;
    failures_left_ -= breaks ? 1 : 0;
    std::visit([&](auto& held) { breaks ? break_off(held) : carry_out(held); }, work);
    return true;
  }

  void fail_next(std::int64_t count) { failures_left_ = count; }

 private:
  using Work = std::variant<kernels::Launch, kernels::KvExport, kernels::KvImport>;

  void add(kernels::Queue queue, Work work) {
    queues_[static_cast<std::size_t>(queue)].push_back(std::move(work));
  }

  void carry_out(kernels::Launch& launch) {
    kernels::LaunchedStep step(std::move(launch));
    while (step.advance(backend_) == kernels::StepYield::kNeedsExchange) {
    }
    const Nanos compute =
        step.step() == nullptr ? cost_.step : kernels::step_time(cost_, *step.step());
    step.finish(backend_, compute);
  }

  template <class Copy>
  void carry_out(Copy& copy) {
    kernels::run_copy(backend_, copy);
  }

  static void break_off(kernels::Launch& launch) {
    launch.done({fail(Code::kInternal, "the device broke"), Nanos{0}});
  }

  template <class Copy>
  static void break_off(Copy& copy) {
    copy.done(fail(Code::kInternal, "the device broke"));
  }

  kernels::SimBackend& backend_;
  kernels::StepCost cost_;
  std::int64_t failures_left_ = 0;
  std::array<std::deque<Work>, kernels::kQueueCount> queues_;
};

World::World(const Setup& setup)
    : model_(setup.model),
      backend_(setup.model, setup.size),
      launcher_(std::make_unique<HeldLauncher>(backend_, setup.cost)),
      runtime_(std::make_shared<TestingRuntime>()),
      random_(setup.seed) {
  MESSAGE("seed ", setup.seed);
  Config config;
  config.mutable_log()->set_level("debug");
  if (setup.configure) {
    setup.configure(config);
  }
  auto node =
      build_node(config,
                 Parts{backend_.shape(),
                       {{&backend_, launcher_.get()}},
                       [this] { return now(); },
                       [this](LogLevel, std::string_view line) { events_.emplace_back(line); },
                       runtime_,
                       {}});
  REQUIRE_MESSAGE(node.has_value(), (node ? "" : node.error().message));
  node_ = *std::move(node);
  clients_ = std::make_unique<Clients>(
      *node_, [this] { return now(); }, setup.stream);
}

World::~World() {
  node_->shut_down(Nanos{0});
  node_.reset();
}

void World::fail_steps(std::int64_t count) {
  launcher_->fail_next(count);
}

Instant World::now() const {
  return Instant(
      std::chrono::duration_cast<Nanos>(runtime_->scheduler().clock().now().time_since_epoch()) +
      std::chrono::hours(1));
}

// One message of one ready actor, or one completed step, as the seed says. False: nothing is ready.
bool World::step() {
  auto& jobs = runtime_->scheduler().jobs;
  const bool step_ready = !steps_held_ && !launcher_->idle();
  if (jobs.empty() && !step_ready) {
    return false;
  }
  if (step_ready && (jobs.empty() || random_() % 8 == 0)) {
    const std::size_t queue = random_() % kernels::kQueueCount;
    if (!launcher_->complete(queue)) {
      launcher_->complete(1 - queue);
    }
  } else {
    const auto ready = static_cast<std::ptrdiff_t>(random_() % jobs.size());
    std::rotate(jobs.begin(), jobs.begin() + ready, jobs.begin() + ready + 1);
    runtime_->scheduler().try_run_once();
  }
  // Handlers take time, so that timers fire between any two of them.
  runtime_->scheduler().advance_time(std::chrono::microseconds(random_() % 20));
  return true;
}

bool World::run(const std::function<bool()>& until, Nanos limit) {
  const Instant end = now() + limit;
  while (!until()) {
    if (now() >= end) {
      return false;
    }
    clients_->pass_time();
    if (!step()) {
      REQUIRE(runtime_->scheduler().trigger_timeout());
      runtime_->scheduler().advance_time(Nanos{0});
    }
  }
  return true;
}

void World::settle(Nanos limit) {
  const Instant end = now() + limit;
  run(
      [this, end] {
        return now() >= end ||
               (runtime_->scheduler().jobs.empty() && (steps_held_ || launcher_->idle()));
      },
      limit);
}

bool World::memory_is_free() {
  const kernels::KvArena& arena = backend_.arena();
  return arena.free_blocks() == arena.blocks() && arena.free_sequences() == arena.sequences();
}

}  // namespace shoal::testing
