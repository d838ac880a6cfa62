// Runs one scenario under one seed: workload and faults (safety phase), then all faults end and
// everything must complete (liveness phase), then the invariants are checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "schemas/result.h"
#include "schemas/scenario.pb.h"
#include "tests/sim/violation.h"
#include "tests/sim/world.h"

namespace shoal::sim {

// Of scenarios/*.txtpb, all that `reaches` names is reached by some of so many seeds.
inline constexpr std::uint64_t kSeedsToReach = 8;

// kMisconfigured names file, line and field.
Result<scenario::Scenario> read_scenario(const std::filesystem::path& file);
Result<scenario::Scenario> parse_scenario(const std::string& text, const std::string& name);

// A scenario of its own for every seed: nodes, workload and faults are drawn from it.
scenario::Scenario drawn_scenario(std::uint64_t seed, int nodes);
// Likewise, of nodes with these roles ("gateway router").
scenario::Scenario drawn_scenario(std::uint64_t seed, const std::vector<std::string>& roles);

struct TraceChoice {
  std::string file;
  std::int64_t requests = 200;  // the first ones; 0: all
  double rate = 1;              // arrivals and pauses are that many times shorter
};

struct TraceSize {
  std::int64_t requests = 0;
  Nanos span{0};  // from the first arrival to the last
};

// kMisconfigured names file and line.
Result<TraceSize> measure_trace(const TraceChoice& choice);
// The requests of a measured trace come in place of drawn ones.
void play_trace(scenario::Scenario& scenario, const TraceChoice& choice);
// Gives a drawn scenario devices that hold the prompts of traces, clients that wait for whole
// answers, and faults all along the trace.
void fit_to_trace(scenario::Scenario& drawn, const TraceSize& size);

struct Outcome {
  std::uint64_t hash = 0;
  Nanos time{0};  // virtual
  std::uint64_t messages = 0;
  std::vector<Violation> violations;
  std::map<std::string, std::int64_t> answers;   // completed, expired, refused, ...
  std::map<std::string, std::int64_t> faults;    // by kind
  std::map<std::string, std::int64_t> counters;  // of rare states
  std::map<std::string, std::int64_t> kv;        // of all nodes' stores; none: nothing is kept
  // Virtual: from when all faults had ended and all clients had come until the cluster was whole,
  // and from then until everything open was over.
  Nanos whole{0};
  Nanos settled{0};
  std::vector<std::string> events;  // if kept; each after its ms since faults count
};

struct RunOptions {
  std::uint64_t seed = 1;
  bool keep_events = false;
  Tamper tamper{};
};

// The same run with its drawn faults written out.
scenario::Scenario written_out(const scenario::Scenario& scenario, std::uint64_t seed);

// The smallest scenario found that still violates the same invariant under the seed: fewer faults,
// then fewer requests. Runs it many times; `progress` after each.
scenario::Scenario shrink(const scenario::Scenario& scenario,
                          std::uint64_t seed,
                          const std::string& invariant,
                          const std::function<void(int runs)>& progress);

std::string scenario_text(const scenario::Scenario& scenario);

Outcome run_scenario(const scenario::Scenario& scenario, const RunOptions& options);

}  // namespace shoal::sim
