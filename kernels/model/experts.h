// Runs experts on quantised rows: the arithmetic every exchange row shares, so that all of them
// give the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/expert_port.h"
#include "kernels/model/model.h"
#include "kernels/ops.h"
#include "kernels/workspace.h"

namespace shoal::kernels {

// out [n][dim] = w2 . quantize(swiglu(w1 x, w3 x) * weight); weights [n] or null (shared expert).
// Scratch comes from `space`.
void run_expert(const Ops& ops,
                const ExpertWeights& expert,
                QuantRows x,
                const float* weights,
                float limit,
                std::int64_t n,
                Workspace& space,
                Bf16* out);

// One row for one expert: where it lies, and where what comes of it goes.
struct ExpertPair {
  const ExpertWeights* expert = nullptr;
  const std::uint8_t* codes = nullptr;   // [dim]
  const std::uint8_t* scales = nullptr;  // [dim/32]
  float weight = 1;
  Bf16* out = nullptr;  // [dim]
};

// Runs each expert once over all its pairs. Safe from any thread.
void run_pairs(const Ops& ops, const ModelConfig& config, std::vector<ExpertPair> pairs);

// The exchange row `local`: all experts on this device, complete inside start().
class LocalExperts : public ExpertPort {
 public:
  LocalExperts(const Model& model, const Ops& ops) : model_(model), ops_(ops) {}

  bool start(Exchange& exchange) override;
  // Completes the exchange; safe from any thread, one call at a time per exchange.
  void run(Exchange& exchange) const;

 private:
  const Model& model_;
  const Ops& ops_;
};

}  // namespace shoal::kernels
