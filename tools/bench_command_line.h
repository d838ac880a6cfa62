// The benchmarks under `shoal bench`, as CLI11 sees them.
#pragma once

#include <CLI/CLI.hpp>

namespace shoal::tools {

// All of them; `status` gets the exit status of the one that ran.
void add_bench(CLI::App& app, int& status);

// Each in the file of its benchmark: flags, examples, and what runs.
void add_bench_engine(CLI::App& bench, int& status);
void add_bench_experts(CLI::App& bench, int& status);
void add_bench_cost(CLI::App& bench, int& status);
void add_bench_kv(CLI::App& bench, int& status);
void add_bench_prefill(CLI::App& bench, int& status);
void add_bench_autoscale(CLI::App& bench, int& status);
void add_bench_verify(CLI::App& bench, int& status);
void add_bench_decode(CLI::App& bench, int& status);
void add_bench_vision(CLI::App& bench, int& status);

}  // namespace shoal::tools
