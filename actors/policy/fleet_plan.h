// Which parallelism each stage of a fleet has and how many GPUs that takes: every EP and DP in
// powers of two is tried; of those whose weights fit, that keep the promise and that one failure
// does not hurt too much, the cheapest wins: the fewest GPUs for the load. Every other layout says
// why not, with what it would need and what there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "actors/policy/fleet_economics.h"
#include "actors/policy/fleet_inputs.h"
#include "actors/policy/fleet_step.h"
#include "schemas/units.h"

namespace shoal {

enum class PlanVerdict : std::uint8_t {
  kBest,
  kCostlier,       // than the best: GPUs
  kWeights,        // do not fit beside one request: bytes of a GPU
  kHostTables,     // do not fit a node's memory: bytes
  kUserRate,       // an answer alone is too slow: tokens/s
  kFirstToken,     // comes too late with any chunk: ns
  kFailureDomain,  // a group is interrupted too often: hours between
  kReads,          // the KV store cannot feed a node: bytes/s
  kTooManyGpus,    // for the load: GPUs
};

struct PlanStage {
  PlanLayout layout;
  PlanVerdict verdict = PlanVerdict::kCostlier;
  double needed = 0;     // in the unit of the verdict
  double available = 0;  // there, or of the best
  PlanStep step;
  double weight_bytes = 0;  // of a GPU
  double streams = 0;       // decode: of a DP rank
  int drafts = 0;           // decode: verified in a step
  double rows = 0;          // prefill: the chunk of a DP rank
  Nanos first_token{0};     // prefill: mean, while as busy as planned
  double user_rate = 0;     // decode: tokens/s of an answer in a full step
  double full_rate = 0;     // tokens/s of a GPU that never waits
  double gpu_rate = 0;      // tokens/s of a GPU as busy as planned
  std::int64_t groups = 0;
  std::int64_t gpus = 0;
};

struct FleetPlan {
  std::vector<PlanStage> prefill;  // every layout, EP and then DP ascending
  std::vector<PlanStage> decode;
  std::optional<std::size_t> best_prefill;  // none: no layout serves the load
  std::optional<std::size_t> best_decode;
  std::int64_t vision_gpus = 0;
  std::int64_t spare_gpus = 0;  // in whole nodes, for what is being repaired
  std::int64_t gpus = 0;        // 0: there is no plan
};

// The load must be one that validate_plan() has nothing against.
FleetPlan plan_fleet(const PlanModel& model,
                     const PlanMachine& machine,
                     const PlanWorkload& workload,
                     const PlanSlo& slo);

// US dollars; of a day, of a million tokens, of what a GPU earns in an hour.
struct FleetCost {
  double usd_per_day = 0;
  double per_million = 0;           // input and output, hits too
  double per_million_uncached = 0;  // of prefill GPUs
  double per_million_output = 0;    // of decode GPUs
  Revenue revenue;
  double gpu_hour = 0;
  double margin = 0;  // share of the income that GPUs do not cost
};

// Zeros without a plan.
FleetCost cost_of(const FleetPlan& plan,
                  const PlanMachine& machine,
                  const PlanWorkload& workload,
                  const TokenPrices& prices);

// What cannot be planned with, in words that name the field; empty: nothing.
std::string_view validate_plan(const PlanMachine& machine,
                               const PlanWorkload& workload,
                               const PlanSlo& slo);

// Most streams of a DP rank that keep the promise and fit its memory; 0: not even one.
double most_streams(const PlanModel& model,
                    const PlanMachine& machine,
                    PlanLayout layout,
                    const PlanWorkload& workload,
                    double user_rate,
                    int drafts);

std::string_view name_of(PlanVerdict verdict);
// Of `needed` and `available`.
std::string_view unit_of(PlanVerdict verdict);

}  // namespace shoal
