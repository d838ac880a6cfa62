// Flags of every benchmark of policies that replays traces.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace shoal::tools {

struct BenchPolicyOptions {
  std::vector<std::string> traces;
  std::vector<std::string> policies;  // none: all
  std::int64_t requests = 0;          // the first of each trace; 0: all
  int seeds = 5;                      // figures are means over them
  bool cost = false;                  // what a decision costs instead
  bool json = false;
};

void add_policy_options(CLI::App& bench,
                        BenchPolicyOptions& o,
                        const std::vector<std::string>& rows);
// Throws, as CLI11 does, without one of what there is to measure.
void need_trace(const BenchPolicyOptions& o);

}  // namespace shoal::tools
