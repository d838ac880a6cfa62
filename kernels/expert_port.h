// How the graph reaches the routed experts: buffers and routing of one exchange. Experts are
// reached only through here.
#pragma once

#include <cstdint>

#include "kernels/formats.h"
#include "kernels/ops.h"

namespace shoal::kernels {

// One layer's exchange of one step. Buffers belong to the step and live until it is complete.
struct Exchange {
  int layer = 0;  // backbone layers first, then the DSpark stages
  std::int64_t rows = 0;
  int top_k = 0;
  std::int64_t dim = 0;
  QuantRows
      x;  // [rows][dim] codes, [rows][dim/32] scales: what the expert's linear would make itself
  const std::int32_t* experts = nullptr;  // [rows][top_k]
  const float* weights = nullptr;         // [rows][top_k], applied before w2
  Bf16* outputs = nullptr;                // [rows][top_k][dim], one bf16 row per (row, expert)
};

class ExpertPort {
 public:
  virtual ~ExpertPort() = default;

  // Starts the exchange. True: outputs are complete on return. False: the step yields
  // NeedsExchange, and whoever runs the step completes the outputs before it calls advance again.
  // Called by the thread that advances the step.
  virtual bool start(Exchange& exchange) = 0;
};

// For experts elsewhere: every exchange is completed by whoever runs the step.
class YieldedExperts final : public ExpertPort {
 public:
  bool start(Exchange&) override { return false; }
};

}  // namespace shoal::kernels
