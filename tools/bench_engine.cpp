// shoal bench engine: steps straight on the device: decode at several batch sizes, prefill,
// what expert shards add, and what a step costs outside kernels.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "kernels/registry.h"
#include "tools/bench_command_line.h"
#include "tools/bench_engine_shards.h"
#include "tools/commands.h"
#include "tools/flag_checks.h"
#include "tools/local_server.h"

namespace shoal::tools {

namespace {

using kernels::Backend;
using kernels::RowRun;

struct BenchEngineOptions {
  std::string model;
  std::int64_t prompt = 64;     // tokens in the cache before decode is timed
  std::int64_t prefill = 2048;  // tokens of the timed prefill
  int steps = 100;
  int shards = 4;        // for the experts, against the device's own; 0: not compared
  int changes = 5;       // of their placement while steps run
  int processes = 0;     // likewise
  bool profile = false;  // time per operator
};

double seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

Result<kernels::StepResult> run_step(Backend& backend, std::vector<RowRun> runs) {
  kernels::StepPlan plan;
  plan.runs = std::move(runs);
  TRY(auto step, backend.begin(std::move(plan)));
  backend.advance(*step);
  return backend.take(*step);
}

// Sequences with a prompt in the cache, ready to decode.
struct Batch {
  Backend& backend;
  std::vector<RowRun> runs;

  ~Batch() {
    for (const RowRun& run : runs) {
      backend.arena().give_sequence(run.sequence);
      backend.arena().give_blocks(run.blocks);
    }
  }
};

RowRun open_run(Backend& backend, std::int64_t tokens, std::int64_t prompt, TokenId salt) {
  RowRun run;
  run.sequence = *backend.arena().take_sequence();
  run.blocks = *backend.arena().take_blocks((tokens + kBlockTokens - 1) / kBlockTokens);
  backend.reset_sequence(run.sequence);
  for (std::int64_t i = 0; i < prompt; ++i) {
    run.tokens.push_back(
        static_cast<TokenId>(3 + (i * 7 + salt * 131) % (backend.shape().vocab - 3)));
  }
  run.sample = true;
  return run;
}

Result<void> advance(Batch& batch) {
  TRY(const auto result, run_step(batch.backend, batch.runs));
  for (std::size_t i = 0; i < batch.runs.size(); ++i) {
    batch.runs[i].first += batch.runs[i].rows();
    batch.runs[i].tokens = {result.runs[i].drawn.at(0).token};
  }
  return {};
}

// Median step time over repeats of `steps` decode steps.
Result<Nanos> time_decode(Backend& backend, int batch_size, const BenchEngineOptions& o) {
  Batch batch{backend, {}};
  for (int i = 0; i < batch_size; ++i) {
    batch.runs.push_back(open_run(backend, o.prompt + o.steps + 8, o.prompt, i));
  }
  TRY_VOID(advance(batch));
  std::vector<Nanos> times;
  for (int i = 0; i < o.steps; ++i) {
    const Instant began = monotonic_now();
    TRY_VOID(advance(batch));
    times.push_back(monotonic_now() - began);
  }
  std::nth_element(times.begin(), times.begin() + o.steps / 2, times.end());
  return times[static_cast<std::size_t>(o.steps / 2)];
}

Result<Nanos> time_prefill(Backend& backend, std::int64_t prompt) {
  Batch batch{backend, {open_run(backend, prompt, prompt, 1)}};
  RowRun& run = batch.runs.front();
  run.stack = kernels::Stack::kEncoder;
  run.finishes_prompt = true;
  run.decoder_floor = std::max<Position>(0, prompt - backend.shape().window);
  const Instant began = monotonic_now();
  TRY(const auto result, run_step(backend, {run}));
  return monotonic_now() - began;
}

// Wall time of a batch-1 step, and of that the part spent outside the operators.
Result<void> print_outside_kernels(kernels::Device& device, const BenchEngineOptions& o) {
  Backend& backend = device.backend();
  Batch batch{backend, {open_run(backend, o.prompt + o.steps + 8, o.prompt, 1)}};
  TRY_VOID(advance(batch));
  device.profile()->reset();
  const Instant began = monotonic_now();
  for (int i = 0; i < o.steps; ++i) {
    TRY_VOID(advance(batch));
  }
  const Nanos whole = monotonic_now() - began;
  const Nanos inside = device.profile()->total();
  std::printf("batch-1 step with every operator timed: %.1f us, outside kernels %.1f us\n",
              seconds(whole) * 1e6 / o.steps,
              seconds(whole - inside) * 1e6 / o.steps);
  if (o.profile) {
    for (const kernels::OpTime& op : device.profile()->times()) {
      std::printf("  %-18s %6.1f calls %9.2f us a step\n",
                  std::string(op.name).c_str(),
                  static_cast<double>(op.calls) / o.steps,
                  seconds(op.time) * 1e6 / o.steps);
    }
  }
  return {};
}

Result<std::unique_ptr<kernels::Device>> open(const BenchEngineOptions& o,
                                              int threads,
                                              bool profiled) {
  kernels::DeviceConfig config;
  config.model = o.model;
  config.threads = threads;
  config.sequences = 64;
  config.kv_blocks =
      64 * ((o.prompt + o.steps + 8) / kBlockTokens + 1) + o.prefill / kBlockTokens + 1;
  if (profiled) {
    config.profile_clock = monotonic_now;
  }
  return kernels::open_device("cpu", config);
}

Result<void> check_fits(const BenchEngineOptions& o, const kernels::ModelShape& shape) {
  const auto check = [&shape](const char* what, std::int64_t tokens) -> Result<void> {
    if (tokens <= shape.max_positions) {
      return {};
    }
    return fail(Code::kMisconfigured,
                std::string(what) + ": " + std::to_string(tokens) +
                    " tokens do not fit the model's " + std::to_string(shape.max_positions));
  };
  TRY_VOID(check("--prefill", o.prefill));
  return check("--prompt and --steps", o.prompt + o.steps);
}

Result<void> bench(const BenchEngineOptions& o) {
  kernels::DeviceConfig config;
  config.model = o.model;
  TRY(const kernels::ModelShape shape, kernels::device_shape("cpu", config));
  TRY_VOID(check_fits(o, shape));
  for (const int threads : {1, 2}) {
    TRY(const auto device, open(o, threads, false));
    for (const int batch : {1, 8, 32}) {
      TRY(const Nanos step, time_decode(device->backend(), batch, o));
      std::printf("decode  threads %d batch %2d: %8.1f tokens/s (%.0f us a step)\n",
                  threads,
                  batch,
                  batch / seconds(step),
                  seconds(step) * 1e6);
    }
    TRY(Nanos prefill, time_prefill(device->backend(), o.prefill));
    for (int i = 0; i < 2; ++i) {
      TRY(const Nanos again, time_prefill(device->backend(), o.prefill));
      prefill = std::min(prefill, again);
    }
    std::printf("prefill threads %d %lld tokens: %8.1f tokens/s\n",
                threads,
                static_cast<long long>(o.prefill),
                static_cast<double>(o.prefill) / seconds(prefill));
  }
  if (o.shards > 0) {
    TRY_VOID(bench_expert_shards({.model = o.model,
                                  .prompt = o.prompt,
                                  .steps = o.steps,
                                  .shards = o.shards,
                                  .changes = o.changes}));
  }
  if (o.processes > 0) {
    TRY_VOID(bench_expert_shards({.model = o.model,
                                  .prompt = o.prompt,
                                  .steps = o.steps,
                                  .changes = 0,
                                  .processes = o.processes}));
  }
  TRY(const auto device, open(o, 1, true));
  return print_outside_kernels(*device, o);
}

int run_bench(const BenchEngineOptions& options) {
  const Result<void> done = bench(options);
  return done ? 0 : report(done.error());
}

}  // namespace

void add_bench_engine(CLI::App& bench, int& status) {
  CLI::App* engine =
      bench.add_subcommand("engine", "decode and prefill steps straight on the device");
  const auto options = std::make_shared<BenchEngineOptions>();
  BenchEngineOptions& o = *options;
  o.model = SHOAL_BUILTIN_MODEL;
  engine->add_option("--model", o.model, "model directory")
      ->check(not_empty())
      ->default_str("the built-in one");
  engine->add_option("--prompt", o.prompt, "tokens in the cache before decode is timed")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  engine->add_option("--prefill", o.prefill, "tokens of the timed prefill")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  engine->add_option("--steps", o.steps, "decode steps a measurement")
      ->check(CLI::Range(3, 1000000))
      ->capture_default_str();
  engine
      ->add_option("--shards", o.shards, "expert shards to compare with the device's own; 0: none")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  engine->add_option("--changes", o.changes, "times that all experts move, one a second; 0: none")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  engine
      ->add_option(
          "--processes",
          o.processes,
          "processes on loopback with the experts, to compare with the device's own; 0: none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  engine->add_flag("--profile", o.profile, "time per operator");
  engine->footer("Example:\n  shoal bench engine --steps 200 --profile");
  engine->callback([options, &status] { status = run_bench(*options); });
}

}  // namespace shoal::tools
