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

Device::Device(Timeline& timeline,
               std::shared_ptr<kernels::Backend> backend,
               const StepCost& cost,
               kernels::ExchangeRunner exchange)
    : timeline_(timeline),
      backend_(std::move(backend)),
      cost_(cost),
      exchange_(std::move(exchange)) {}

Device::~Device() {
  stop();
}

void Device::stop() {
  *alive_ = false;
  if (const auto* step = running_ ? std::get_if<Step>(&*running_) : nullptr) {
    (*step)->let_go();
  }
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
      if (const auto* step = std::get_if<Step>(&*running_)) {
        advance(*step);
      } else {
        end_in(cost_.copy);
      }
      return;
    }
  }
}

void Device::end_in(Nanos cost) {
  cost_of_running_ = cost;
  timeline_.after(cost * factor_, [this, alive = alive_] {
    if (*alive) {
      unless_held([this] { complete(); });
    }
  });
}

void Device::hold(bool held) {
  held_ = held;
  if (const auto due = held_ ? nullptr : std::exchange(due_, nullptr)) {
    due();
  }
}

void Device::unless_held(std::function<void()> happen) {
  if (held_) {
    due_ = std::move(happen);
  } else {
    happen();
  }
}

// A step is computed when it starts, and told of when it is due: what it costs depends on the rows
// that it then has. Nobody else touches the memory that it works on. What comes of an exchange is
// an event of its own: it may be told from anywhere.
void Device::advance(const Step& step) {
  if (step->advance(*backend_) == kernels::StepYield::kDone) {
    end_in(step->step() == nullptr ? cost_.step : kernels::step_time(cost_, *step->step()));
    return;
  }
  exchange_(step->exchange(*backend_), [this, alive = alive_, step](const Result<void>& outcome) {
    if (*alive) {
      timeline_.after(Nanos{0}, [this, alive, step, outcome] {
        if (*alive) {
          unless_held([this, step, outcome] { exchanged(step, outcome); });
        }
      });
    }
  });
}

void Device::exchanged(const Step& step, const Result<void>& outcome) {
  if (outcome) {
    advance(step);
  } else {
    step->discard(outcome.error());
    end_in(cost_.step);
  }
}

void Device::complete() {
  Work work = *std::exchange(running_, std::nullopt);
  const bool fails = failures_ > 0;
  failures_ -= fails ? 1 : 0;
  std::visit(Overloaded{[&](Step& step) {
                          if (fails) {
                            step->discard(broken());
                          }
                          step->finish(*backend_, fails ? Nanos{0} : cost_of_running_ * factor_);
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
