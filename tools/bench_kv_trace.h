// `shoal bench kv --trace`: its flags, beside those of the command, and what runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace shoal::tools {

struct BenchKvTraceOptions {
  std::vector<std::string> traces;
  std::vector<std::string> capacities{"1%", "5%", "10%", "20%", "50%", "100%"};  // or blocks
  std::vector<std::string> policies{"ours", "lru"};
  std::int64_t requests = 0;  // the first; 0: all
};

void add_bench_kv_trace(CLI::App& kv, BenchKvTraceOptions& o);
int run_bench_kv_trace(const BenchKvTraceOptions& options);

}  // namespace shoal::tools
