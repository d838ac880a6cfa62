// Loading names every slot, so whatever an abandoned placement left in the engine is overwritten.
#include "actors/expert_slots.h"

#include <algorithm>
#include <utility>

namespace shoal {

Result<void> load_slots(kernels::ExpertEngine& engine,
                        const RankSlots& of,
                        const std::vector<ExpertLayer>& layers,
                        const std::function<bool()>& is_late) {
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (is_late && is_late()) {
      return fail(Code::kDeadline, "experts could not be loaded in time");
    }
    const ExpertShape& shape = layers[layer].shape;
    for (std::int32_t slot = 0; slot < std::max(shape.slots, of.slots); ++slot) {
      const auto at =
          static_cast<std::size_t>(static_cast<std::int32_t>(of.rank) * shape.slots + slot);
      const std::int32_t expert = slot < shape.slots ? layers[layer].expert_at[at] : kEmptySlot;
      if (expert == kEmptySlot) {
        engine.clear({static_cast<int>(layer), slot});
      } else {
        TRY_VOID(engine.load({static_cast<int>(layer), slot}, expert));
      }
    }
  }
  return {};
}

std::int32_t most_slots(const std::vector<ExpertLayer>& layers) {
  std::int32_t most = 0;
  for (const ExpertLayer& layer : layers) {
    most = std::max(most, layer.shape.slots);
  }
  return most;
}

void run_calls(kernels::ExpertEngine& engine, std::span<transport::ExpertCall> calls) {
  std::vector<kernels::ExpertJob> jobs;
  for (const transport::ExpertCall& call : calls) {
    const transport::ExpertBatch& batch = *call.batch;
    jobs.push_back({.epoch = batch.shape().epoch,
                    .layer = batch.shape().layer,
                    .dim = batch.shape().dim,
                    .pairs = batch.shape().pairs,
                    .row = batch.row(),
                    .slot = batch.slot(),
                    .weight = batch.weight(),
                    .codes = batch.codes(),
                    .scales = batch.scales(),
                    .outputs = reinterpret_cast<kernels::Bf16*>(call.outputs)});
  }
  engine.run(jobs);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].outcome = std::move(jobs[i].outcome);
  }
}

}  // namespace shoal
