// Gives a backend that computes next to nothing the speed of a real one: steps and copies end when
// their cost has passed on the clock.
//
// The thread that advances a step waits in it, as it would in a step that computes; nobody else
// does.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/sim/step_cost.h"
#include "schemas/units.h"

namespace shoal::kernels {

// The time of the process. Empty functions: steps and copies take no longer than they work.
struct DeviceTime {
  std::function<Instant()> now;
  // Returns then, or at once when the device is about to be stopped.
  std::function<void(Instant)> wait_until;
};

class TimedBackend final : public Backend {
 public:
  // `backend` outlives this one. Its own work counts as part of the cost.
  TimedBackend(Backend& backend, const StepCost& cost, DeviceTime time);

  const ModelShape& shape() const override { return backend_.shape(); }

  KvArena& arena() override { return backend_.arena(); }

  void reset_sequence(SequenceId id) override { backend_.reset_sequence(id); }

  void end_prefill(SequenceId id) override { backend_.end_prefill(id); }

  Result<std::vector<std::byte>> export_sequence(SequenceId id,
                                                 std::span<const BlockId> blocks,
                                                 Position tokens) override;
  Result<void> import_sequence(SequenceId id,
                               std::span<const BlockId> blocks,
                               std::span<const std::byte> image) override;
  Result<std::vector<std::byte>> export_tail(SequenceId id,
                                             std::span<const BlockId> blocks,
                                             Position tokens) override;

  // Part of a step, as blocks that are loaded.
  Result<void> import_tail(const RowRun& run, std::span<const std::byte> image) override {
    return backend_.import_tail(run, image);
  }

  void read_block(BlockId id, std::span<std::byte> out) override { backend_.read_block(id, out); }

  void write_block(BlockId id, std::span<const std::byte> bytes) override {
    backend_.write_block(id, bytes);
  }

  Result<std::unique_ptr<Step>> begin(StepPlan plan) override;
  StepYield advance(Step& step) override;
  Exchange& exchange(Step& step) override;
  StepResult take(Step& step) override;

 private:
  struct TimedStep;

  Instant due_after(Nanos cost) const;
  void wait_until(Instant due) const;

  Backend& backend_;
  StepCost cost_;
  DeviceTime time_;
};

}  // namespace shoal::kernels
