// The expert engine over a checkpoint: slots are views on its mapping, so that an expert costs
// memory only as its pages are used.
#pragma once

#include <memory>

#include "kernels/expert_engine.h"
#include "kernels/model/checkpoint.h"
#include "kernels/model/config.h"
#include "kernels/ops.h"

namespace shoal::kernels {

// `ops` outlives it. Needs no other weights of the model.
std::unique_ptr<ExpertEngine> make_expert_engine(const ModelConfig& config,
                                                 std::shared_ptr<const Checkpoint> checkpoint,
                                                 const Ops& ops,
                                                 const ExpertEngineLimits& limits);

}  // namespace shoal::kernels
