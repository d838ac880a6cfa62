// A simulated device of one node: a backend, and a launcher whose steps take virtual time.
// One step at a time, decode and prefill by turns, as in the product's launch queue. A step whose
// experts are elsewhere ends as much later as its exchanges take.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "kernels/launch_queue.h"
#include "kernels/sim/step_cost.h"
#include "tests/sim/timeline.h"

namespace shoal::sim {

using kernels::StepCost;

class Device final : public kernels::Launcher {
 public:
  Device(Timeline& timeline,
         std::shared_ptr<kernels::Backend> backend,
         const StepCost& cost,
         kernels::ExchangeRunner exchange = {});
  ~Device() override;

  kernels::Backend& backend() { return *backend_; }

  void launch(kernels::Launch launch) override {
    const kernels::Queue queue = launch.plan.queue;
    add(queue, std::make_shared<kernels::LaunchedStep>(std::move(launch)));
  }

  void copy_out(kernels::KvExport copy) override { add(copy.queue, std::move(copy)); }

  void copy_in(kernels::KvImport copy) override { add(copy.queue, std::move(copy)); }

  void stop() override;

  // Nothing completes while it is held.
  void hold(bool held);

  // Steps take that many times longer.
  void slow_down(std::int64_t factor) { factor_ = factor; }

  // The next steps and copies fail.
  void fail_next(std::int64_t count) { failures_ = count; }

  bool memory_is_free();

  // Since when it works on what it works on now; none: it has nothing to do.
  std::optional<Instant> works_since() const { return running_ ? works_since_ : std::nullopt; }

 private:
  // An exchange that goes on keeps the step's memory.
  using Step = std::shared_ptr<kernels::LaunchedStep>;
  using Work = std::variant<Step, kernels::KvExport, kernels::KvImport>;

  void add(kernels::Queue queue, Work work);
  void start_next();
  void end_in(Nanos cost);
  void complete();
  void advance(const Step& step);
  void exchanged(const Step& step, const Result<void>& outcome);
  void unless_held(std::function<void()> happen);

  Timeline& timeline_;
  std::shared_ptr<kernels::Backend> backend_;
  StepCost cost_;
  std::array<std::deque<Work>, kernels::kQueueCount> queues_;
  kernels::QueueTurns turns_;
  kernels::ExchangeRunner exchange_;
  std::optional<Work> running_;
  Nanos cost_of_running_{0};
  std::optional<Instant> works_since_;
  std::function<void()> due_;  // what would have happened but that the device is held
  bool held_ = false;
  std::int64_t factor_ = 1;
  std::int64_t failures_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace shoal::sim
