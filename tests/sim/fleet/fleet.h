// A whole fleet over recorded requests: prefix hits, the choice of an instance, its steps, the
// hand-over, decode steps, and machines that fail. The policies and the ledger's table are those of
// production; one event stands for a step of a group, not of a rank, so that hours of thousands of
// GPUs take minutes. What a prefill has handed over no longer dies with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "schemas/fleet.pb.h"
#include "schemas/kv_record.h"
#include "schemas/result.h"
#include "tests/sim/fleet/fleet_prompts.h"
#include "tests/sim/fleet/prefill_load.h"
#include "tests/sim/fleet/samples.h"

namespace shoal::sim {

// A request of the load: what prefill has to do if the store forgets nothing, and how long the
// answer is.
struct FleetRequest {
  PrefillRequest prefill;  // below 0: it arrived before the part that is played
  std::int64_t answer_tokens = 0;
  Position prompt_tokens = 0;
  std::uint32_t last_run = kNoRun;  // of the prompt's blocks
  TtlClass ttl = TtlClass::kChat;
  std::vector<std::int64_t> patches{};  // of each image
};

struct FleetTrace {
  std::vector<FleetRequest> requests;  // in the order of arrival
  PromptRuns prompts;
};

// Plays [from, to); arrivals count from the first one there. What came before is known, too, as
// stores remember it. No requests: none arrives then.
FleetTrace fleet_trace(std::span<const TraceRequest> trace, Nanos from, Nanos to);

// Rates over time, of their peak: a row after the other, again and again. None: always the peak.
struct RateCurve {
  Nanos row{0};
  std::vector<double> rates{};
};

struct FleetLoad {
  const FleetTrace* trace = nullptr;  // again and again
  double rate = 1;                    // arrivals come that many times sooner than recorded
  Nanos time{0};                      // requests arrive for so long; then everything ends
  std::int64_t copies = 1;            // of the recording, at once (fleet_arrivals.h)
  RateCurve curve{};
};

struct FleetMinute {
  std::int64_t arrived = 0;
  std::int64_t prefill_busy_ns = 0;  // of all ranks
  std::int64_t decode_live = 0;      // at its end
  std::int64_t queued = 0;           // without a first token, at its end
  std::int64_t store_bytes = 0;      // at its end
  std::int64_t loaded_bytes = 0;
  std::int64_t prefill_paid = 0;  // instances at its end, those that come up or go down, too
  std::int64_t decode_paid = 0;   // groups
};

struct FleetFigures {
  std::int64_t requests = 0;
  std::int64_t answered = 0;
  std::int64_t refused = 0;  // no instance or no rank could take it
  std::int64_t attempts = 0;
  std::int64_t events = 0;
  Nanos ended{0};
  std::int64_t prompt_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t answer_tokens = 0;
  std::int64_t recomputed_tokens = 0;  // after failures
  std::int64_t prefill_failures = 0;
  std::int64_t decode_failures = 0;
  std::int64_t vision_failures = 0;
  std::int64_t loads_refused = 0;   // that would have taken too long
  std::int64_t evicted_tokens = 0;  // by the store
  std::int64_t expired_tokens = 0;
  std::int64_t images = 0;
  std::int64_t images_encoded = 0;  // of these
  std::int64_t scale_changes = 0;
  double gpu_hours = 0;
  Samples ttft_ms;
  Samples tpot_ms;
  Samples decode_step_ms;
  Samples images_ready_ms;       // of requests with images, from their arrival on
  std::int64_t good = 0;         // within both limits
  double prefill_imbalance = 0;  // over steps: the longest ranks' time / the mean ranks' time
  double decode_imbalance = 0;
  double prefill_use = 0;           // share of the ranks' time, while requests arrive
  double moe_lb = 1;                // over the tokens of all steps
  double tokens_a_step = 0;         // of a request in decode
  double drafts_a_step = 0;         // that are verified of it
  double expert_bytes_an_hour = 0;  // that are moved, of all groups
  std::vector<FleetMinute> minutes;
  std::vector<std::vector<double>> decode_ranks_ms;  // by minute, of each rank of group 0
  // By window of group 0's experts, as parts of the mean one: load of its GPUs, of the first
  // layer's experts.
  std::vector<std::vector<double>> expert_gpus;
  std::vector<std::vector<double>> experts;
  std::uint64_t hash = 0;  // of all events in their order
};

// kMisconfigured names file, line and field.
Result<fleet::Fleet> read_fleet(const std::filesystem::path& file);

// The same with other rows of registries: `ROLE:ROW` of prefill, store, vision, verify, experts,
// split, scale, or a row of prefill alone; several joined by `+`. kMisconfigured names what there
// is.
Result<fleet::Fleet> with_rows(fleet::Fleet fleet, const std::string& choice);

FleetFigures run_fleet(const fleet::Fleet& fleet,
                       const FleetLoad& load,
                       std::uint64_t seed,
                       const std::function<void(Nanos)>& progress = {});

}  // namespace shoal::sim
