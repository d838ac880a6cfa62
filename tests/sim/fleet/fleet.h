// A whole fleet over recorded requests: prefix hits, the choice of an instance, its steps, the
// hand-over, decode steps, and machines that fail. The policies and the ledger's table are those of
// production; one event stands for a step of a group, not of a rank, so that hours of thousands of
// GPUs take minutes. A cache of any size holds every prefix; what a prefill has handed over no
// longer dies with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "schemas/fleet.pb.h"
#include "schemas/result.h"
#include "tests/sim/fleet/prefill_load.h"
#include "tests/sim/fleet/samples.h"

namespace shoal::sim {

// A request of the load: what prefill has to do, and how long the answer is.
struct FleetRequest {
  PrefillRequest prefill;
  std::int64_t answer_tokens = 0;
};

std::vector<FleetRequest> fleet_requests(std::span<const TraceRequest> trace, Nanos from, Nanos to);

struct FleetLoad {
  std::span<const FleetRequest> requests;  // again and again
  double rate = 1;                         // arrivals come that many times sooner than recorded
  Nanos time{0};                           // requests arrive for so long; then everything ends
};

struct FleetMinute {
  std::int64_t arrived = 0;
  std::int64_t prefill_busy_ns = 0;  // of all ranks
  std::int64_t decode_live = 0;      // at its end
  std::int64_t queued = 0;           // without a first token, at its end
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
  Samples ttft_ms;
  Samples tpot_ms;
  Samples decode_step_ms;
  std::int64_t good = 0;         // within both limits
  double prefill_imbalance = 0;  // over steps: the longest ranks' time / the mean ranks' time
  double decode_imbalance = 0;
  double prefill_use = 0;  // share of the ranks' time, while requests arrive
  std::vector<FleetMinute> minutes;
  std::vector<std::vector<double>> decode_ranks_ms;  // by minute, of each rank of group 0
  std::uint64_t hash = 0;                            // of all events in their order
};

// kMisconfigured names file, line and field.
Result<fleet::Fleet> read_fleet(const std::filesystem::path& file);

FleetFigures run_fleet(const fleet::Fleet& fleet,
                       const FleetLoad& load,
                       std::uint64_t seed,
                       const std::function<void(Nanos)>& progress = {});

}  // namespace shoal::sim
