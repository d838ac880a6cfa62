// The list of benchmarks, as the help shows it.
#include "tools/bench_command_line.h"

namespace shoal::tools {

void add_bench(CLI::App& app, int& status) {
  CLI::App* bench = app.add_subcommand("bench", "measure this machine");
  bench->require_subcommand(1);
  bench->footer("Example:\n  shoal bench engine");
  add_bench_engine(*bench, status);
  add_bench_experts(*bench, status);
  add_bench_cost(*bench, status);
  add_bench_kv(*bench, status);
  add_bench_prefill(*bench, status);
  add_bench_autoscale(*bench, status);
  add_bench_verify(*bench, status);
  add_bench_decode(*bench, status);
  add_bench_vision(*bench, status);
}

}  // namespace shoal::tools
