// One piece of work at a time; its end is an event of the timeline.
#include "tests/sim/device.h"

#include <utility>

namespace shoal::sim {
namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

Error broken() {
  return Error{Code::kInternal, "the device broke"};
}

}  // namespace

Device::Device(Timeline& timeline, std::shared_ptr<kernels::Backend> backend, const StepCost& cost)
    : timeline_(timeline),
      backend_(std::move(backend)),
      cost_(cost) {}

Device::~Device() {
  stop();
}

void Device::stop() {
  *alive_ = false;
  running_.reset();
  for (auto& queue : queues_) {
    queue.clear();
  }
}

void Device::add(kernels::Queue queue, Work work) {
  if (*alive_) {
    queues_[static_cast<std::size_t>(queue)].push_back(std::move(work));
    start_next();
  }
}

void Device::start_next() {
  if (running_) {
    return;
  }
  for (const kernels::Queue next : turns_.order()) {
    auto& queue = queues_[static_cast<std::size_t>(next)];
    if (!queue.empty()) {
      turns_.had(next);
      running_ = std::move(queue.front());
      works_since_ = timeline_.now();
      queue.pop_front();
      cost_of_running_ = begin(*running_);
      timeline_.after(cost_of_running_ * factor_, [this, alive = alive_] {
        if (*alive) {
          due_ = held_;
          if (!held_) {
            complete();
          }
        }
      });
      return;
    }
  }
}

void Device::hold(bool held) {
  held_ = held;
  if (!held_ && std::exchange(due_, false)) {
    complete();
  }
}

// A step is computed when it starts, and told of when it is due: what it costs depends on the rows
// that it then has. Nobody else touches the memory that it works on.
Nanos Device::begin(Work& work) {
  auto* launched = std::get_if<kernels::LaunchedStep>(&work);
  if (launched == nullptr) {
    return cost_.copy;
  }
  while (launched->advance(*backend_) == kernels::StepYield::kNeedsExchange) {
  }
  return launched->step() == nullptr ? cost_.step : kernels::step_time(cost_, *launched->step());
}

void Device::complete() {
  Work work = *std::exchange(running_, std::nullopt);
  const bool fails = failures_ > 0;
  failures_ -= fails ? 1 : 0;
  std::visit(Overloaded{[&](kernels::LaunchedStep& step) {
                          if (fails) {
                            step.discard(broken());
                          }
                          step.finish(*backend_, fails ? Nanos{0} : cost_of_running_ * factor_);
                        },
                        [&](auto& copy) {
                          if (fails) {
                            copy.done(tl::unexpected(broken()));
                          } else {
                            kernels::run_copy(*backend_, copy);
                          }
                        }},
             work);
  start_next();
}

bool Device::memory_is_free() {
  const kernels::KvArena& arena = backend_->arena();
  return arena.free_blocks() == arena.blocks() && arena.free_sequences() == arena.sequences();
}

}  // namespace shoal::sim
