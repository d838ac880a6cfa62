// What an expert shard does with its engine, wherever it is: the slots that a placement gives it
// are loaded, and batches run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "actors/expert_dispatch.h"
#include "kernels/expert_engine.h"
#include "schemas/result.h"
#include "transport/expert_exchange.h"

namespace shoal {

using MakeExpertEngine = std::function<Result<std::unique_ptr<kernels::ExpertEngine>>(
    const kernels::ExpertEngineLimits&)>;

struct RankSlots {
  std::uint32_t rank = 0;
  std::int32_t slots = 0;  // of each layer that its engine has; at least those of the placement
};

// All that the placement gives the rank, for the engine's next publication; other slots are
// cleared. kDeadline: `is_late` said so before a layer.
Result<void> load_slots(kernels::ExpertEngine& engine,
                        const RankSlots& of,
                        const std::vector<ExpertLayer>& layers,
                        const std::function<bool()>& is_late = {});

// Most slots that a rank has in any layer.
std::int32_t most_slots(const std::vector<ExpertLayer>& layers);

void run_calls(kernels::ExpertEngine& engine, std::span<transport::ExpertCall> calls);

}  // namespace shoal
