// How long a step of one layout takes and what memory it needs. A layer is attention, then experts:
// each takes the longer of its FLOP and its bytes, since one does not hide behind the other. What
// travels hides behind both. The slowest rank makes the step: all of it is stretched by the
// imbalance of experts; what no batch hides comes on top.
#pragma once

#include "actors/policy/fleet_inputs.h"
#include "schemas/units.h"

namespace shoal {

// EP: GPUs that share the experts of a layer. DP: ranks of them with requests of their own; the
// EP / DP GPUs of a rank split its attention.
struct PlanLayout {
  int ep = 1;
  int dp = 1;
};

struct PlanStep {
  Nanos attention{0};
  Nanos experts{0};
  Nanos links{0};
  Nanos serial{0};
  double moe_lb = 1;  // received rows: most over mean of the GPUs
  Nanos total{0};
};

// What a step decodes on each DP rank.
struct DecodeLoad {
  double streams = 0;
  int drafts = 0;
  double context = 0;  // tokens, mean
};

// What a step prefills on each DP rank.
struct PrefillLoad {
  double rows = 0;
  double context = 0;     // mean position of a row
  double new_tokens = 0;  // of a request: how often last rows run through all layers
};

// Most over mean of rows received by EP GPUs of `slots` experts each, for `rows` rows a GPU:
// 1 + 0.7 * 0.55 * sqrt(2 ln EP * (1 / (top_k rows) + drift^2 / (0.57 slots))). Rows draw their
// experts (the first term) and popularity moves (the second; popular experts count for more, as if
// exp(-0.75^2) of them were there). The 0.7 is what simulated maxima reach of the bound; 0.55 is
// left by splitting rows over replicas in each step. Simulated with the split: EP64 + 1, 256 rows,
// drift 15 % 1.075 to 1.09; EP128 + 1 1.13 to 1.16; EP8 + 4, 4,096 rows 1.000.
double moe_imbalance(const PlanModel& model, int ep, int slots, double rows, double drift);

// Expert slots of a layer on each GPU.
int expert_slots(const PlanModel& model, int ep, int redundant);

PlanStep decode_step(const PlanModel& model,
                     const PlanMachine& machine,
                     PlanLayout layout,
                     const DecodeLoad& load,
                     double drift);
PlanStep prefill_step(const PlanModel& model,
                      const PlanMachine& machine,
                      PlanLayout layout,
                      const PrefillLoad& load,
                      double drift);

// Bytes of a GPU that may be used, and what weights take of them.
double usable_bytes(const PlanMachine& machine);
double decode_weight_bytes(const PlanModel& model, PlanLayout layout);
double prefill_weight_bytes(const PlanModel& model, PlanLayout layout);
// KV and rings of one answer of `context` tokens.
double stream_kv_bytes(const PlanModel& model, double context);

// Expected tokens of an answer in a step that verifies `drafts`.
double accepted_tokens(const PlanWorkload& workload, int drafts);

// FLOP of an image: linear in its patches and attention among them, 32 layers of width 1,024.
double image_flops(double patches);

}  // namespace shoal
