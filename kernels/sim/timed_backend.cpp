// A deadline when the work begins, and the wait for it when the work is done.
#include "kernels/sim/timed_backend.h"

#include <utility>

namespace shoal::kernels {

struct TimedBackend::TimedStep final : Step {
  TimedStep(std::unique_ptr<Step> own, Instant when) : step(std::move(own)), due(when) {
    rows = step->rows;
    drafted = step->drafted;
  }

  std::unique_ptr<Step> step;
  Instant due;
};

TimedBackend::TimedBackend(Backend& backend, const StepCost& cost, DeviceTime time)
    : backend_(backend),
      cost_(cost),
      time_(std::move(time)) {}

Instant TimedBackend::due_after(Nanos cost) const {
  return time_.now ? time_.now() + cost : Instant{};
}

void TimedBackend::wait_until(Instant due) const {
  if (time_.wait_until) {
    time_.wait_until(due);
  }
}

Result<std::vector<std::byte>> TimedBackend::export_sequence(SequenceId id,
                                                             std::span<const BlockId> blocks,
                                                             Position tokens) {
  const Instant due = due_after(cost_.copy);
  auto image = backend_.export_sequence(id, blocks, tokens);
  wait_until(due);
  return image;
}

Result<void> TimedBackend::import_sequence(SequenceId id,
                                           std::span<const BlockId> blocks,
                                           std::span<const std::byte> image) {
  const Instant due = due_after(cost_.copy);
  auto done = backend_.import_sequence(id, blocks, image);
  wait_until(due);
  return done;
}

Result<std::vector<std::byte>> TimedBackend::export_tail(SequenceId id,
                                                         std::span<const BlockId> blocks,
                                                         Position tokens) {
  const Instant due = due_after(cost_.copy);
  auto image = backend_.export_tail(id, blocks, tokens);
  wait_until(due);
  return image;
}

Result<std::unique_ptr<Step>> TimedBackend::begin(StepPlan plan) {
  const Instant began = due_after(Nanos{0});
  TRY(auto step, backend_.begin(std::move(plan)));
  const Instant due = began + step_time(cost_, *step);
  return std::make_unique<TimedStep>(std::move(step), due);
}

StepYield TimedBackend::advance(Step& step) {
  auto& timed = static_cast<TimedStep&>(step);
  const StepYield yield = backend_.advance(*timed.step);
  if (yield == StepYield::kDone) {
    wait_until(timed.due);
  }
  return yield;
}

Exchange& TimedBackend::exchange(Step& step) {
  return backend_.exchange(*static_cast<TimedStep&>(step).step);
}

StepResult TimedBackend::take(Step& step) {
  return backend_.take(*static_cast<TimedStep&>(step).step);
}

}  // namespace shoal::kernels
