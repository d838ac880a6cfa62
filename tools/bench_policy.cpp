// Alike for all of them, so that one is called as another.
#include "tools/bench_policy.h"

namespace shoal::tools {

void add_policy_options(CLI::App& bench,
                        BenchPolicyOptions& o,
                        const std::vector<std::string>& rows) {
  bench.add_option("--trace", o.traces, "files of requests, see tests/sim/README.md")
      ->check(CLI::ExistingFile);
  bench.add_option("--policies", o.policies, "these rows only; all of them when left out")
      ->delimiter(',')
      ->check(CLI::IsMember(rows));
  bench.add_option("--requests", o.requests, "the first so many of each trace; 0: all")
      ->check(CLI::Range(0, 1000000000))
      ->capture_default_str();
  bench.add_option("--seeds", o.seeds, "runs whose mean is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench.add_flag("--cost", o.cost, "what a decision costs instead");
  bench.add_flag("--json", o.json, "a line of JSON a row instead of a table");
}

void need_trace(const BenchPolicyOptions& o) {
  if (o.traces.empty() && !o.cost) {
    throw CLI::RequiredError("--trace or --cost");
  }
}

}  // namespace shoal::tools
