// A whole node on CAF's testing scheduler: one thread, one seed, virtual time. The seed decides
// which ready actor runs next and when a launched step completes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/config.h"
#include "actors/node.h"
#include "kernels/sim/sim_backend.h"
#include "kernels/sim/step_cost.h"
#include "tests/sim/node_clients.h"

namespace shoal::testing {

class TestingRuntime;
class HeldLauncher;

class World {
 public:
  struct Setup {
    std::uint64_t seed = 1;
    kernels::SimModel model{};
    kernels::SimSize size{.blocks = 64, .sequences = 8};
    std::function<void(Config&)> configure{};
    StreamLimits stream{};
    // What steps say that they took; when they complete, the seed decides.
    kernels::StepCost cost{.step = std::chrono::milliseconds(1), .row = Nanos{0}};
  };

  explicit World(const Setup& setup);
  ~World();

  // Runs until `until`; false: `limit` of virtual time passed first.
  bool run(const std::function<bool()>& until, Nanos limit = std::chrono::minutes(5));

  bool run_until_all_over(Nanos limit = std::chrono::minutes(5)) {
    return run([this] { return clients().open() == 0; }, limit);
  }

  // Everything in flight settles: no ready actor, no step.
  void settle(Nanos limit = std::chrono::seconds(5));

  // Holds launched steps back until released.
  void hold_steps(bool held) { steps_held_ = held; }

  // The next `count` steps fail on the device.
  void fail_steps(std::int64_t count);

  Node& node() { return *node_; }

  Clients& clients() { return *clients_; }

  kernels::SimBackend& backend() { return backend_; }

  Instant now() const;
  bool memory_is_free();

  const std::vector<std::string>& events() const { return events_; }

 private:
  bool step();

  kernels::SimModel model_;
  kernels::SimBackend backend_;
  std::unique_ptr<HeldLauncher> launcher_;
  std::shared_ptr<TestingRuntime> runtime_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Clients> clients_;
  std::mt19937_64 random_;
  std::vector<std::string> events_;
  bool steps_held_ = false;
};

}  // namespace shoal::testing
