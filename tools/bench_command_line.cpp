// One function a benchmark: its flags, its examples, and what runs.
#include "tools/bench_command_line.h"

#include "actors/policy/autoscale.h"
#include "actors/policy/decode_policies.h"
#include "actors/policy/verify_plan.h"
#include "actors/policy/vision_balancer.h"
#include "tools/flag_checks.h"
#include "tools/policy_rows.h"

namespace shoal::tools {

namespace {

// A share, "5%", or a number of blocks.
CLI::Validator capacity() {
  return CLI::Validator(
      [](const std::string& text) {
        const bool is_share = text.ends_with('%');
        const std::string number = is_share ? text.substr(0, text.size() - 1) : text;
        double value = 0;
        return CLI::detail::lexical_cast(number, value) && value > 0 &&
                       value <= (is_share ? 100 : 1e9)
                   ? std::string()
                   : "'" + text + "': expected a share of the blocks like 5%, or a number of them";
      },
      "SHARE% | BLOCKS");
}

void add_bench_kv_trace(CLI::App& kv, BenchKvTraceOptions& o) {
  CLI::Option* trace =
      kv.add_option("--trace", o.traces, "files of requests, see tests/sim/README.md")
          ->check(CLI::ExistingFile);
  kv.add_option("--capacity", o.capacities, "of the different blocks, or so many")
      ->check(capacity())
      ->needs(trace)
      ->capture_default_str();
  kv.add_option("--policy", o.policies, "eviction: as shipped, LRU, or the best there is")
      ->check(CLI::IsMember({"ours", "lru", "optimal"}))
      ->needs(trace)
      ->capture_default_str();
  kv.add_option("--requests", o.requests, "the first so many of each trace; 0: all")
      ->check(CLI::Range(0, 1000000000))
      ->needs(trace)
      ->capture_default_str();
}

void add_bench_kv(CLI::App& bench, CommandLine& line) {
  CLI::App* kv = bench.add_subcommand(
      "kv", "put, get and restart of a KV store on a disk, or what one hits of recorded requests");
  BenchKvOptions& o = line.bench_kv;
  CLI::Option* directory =
      kv->add_option(
            "directory", o.directory, "an empty or new directory on it; emptied afterwards")
          ->check(not_empty());
  CLI::Option* rados =
      kv->add_option("--rados", o.rados, "a ceph.conf: in the pool `shoal` of that cluster instead")
          ->check(CLI::ExistingFile)
          ->excludes(directory);
  kv->add_option("--blocks", o.blocks, "blocks that are put and got")
      ->check(CLI::Range(32, 10000000))
      ->capture_default_str();
  kv->add_option("--payload", o.payload, "bytes of a block")
      ->check(CLI::Range(1, 1 << 26))
      ->capture_default_str();
  kv->add_option(
        "--restart-blocks", o.restart_blocks, "blocks of the store that is opened; 0: none")
      ->check(CLI::Range(0, 100000000))
      ->capture_default_str();
  add_bench_kv_trace(*kv, line.bench_kv_trace);
  kv->get_option("--trace")->excludes(directory)->excludes(rados);
  kv->footer(
      "Examples:\n  shoal bench kv /data/bench --blocks 8000\n"
      "  shoal bench kv --trace tests/sim/traces/chat-800.jsonl.gz --capacity 5% 10%");
  kv->callback([&line] {
    if (!line.bench_kv_trace.traces.empty()) {
      line.status = run_bench_kv_trace(line.bench_kv_trace);
    } else if (line.bench_kv.directory.empty() && line.bench_kv.rados.empty()) {
      throw CLI::RequiredError("directory, --rados or --trace");
    } else {
      line.status = run_bench_kv(line.bench_kv);
    }
  });
}

void add_bench_cost(CLI::App& bench, CommandLine& line) {
  CLI::App* cost = bench.add_subcommand(
      "cost",
      "how well the cost model predicts steps of the device: fitted to half of many shapes");
  BenchCostOptions& o = line.bench_cost;
  cost->add_option("--model", o.model, "model directory")
      ->check(not_empty())
      ->capture_default_str();
  CLI::Option* repeats =
      cost->add_option("--repeats", o.repeats, "of each shape, the median counts")
          ->check(CLI::Range(1, 1000))
          ->capture_default_str();
  CLI::Option* wall =
      cost->add_flag("--wall", o.wall, "time of the wall, not of the computing thread");
  CLI::Option* verbose = cost->add_flag("--verbose", o.verbose, "a row a shape");
  CLI::Option* record = cost->add_option("--record", o.record, "file that gets the recorded times")
                            ->check(not_empty());
  cost->add_option("--live", o.live, "serve so many requests instead, and print the live error")
      ->check(CLI::Range(1, 1000000))
      ->excludes(repeats)
      ->excludes(wall)
      ->excludes(verbose)
      ->excludes(record);
  cost->add_flag("--json", o.json, "a line of JSON a row");
  cost->footer("Examples:\n  shoal bench cost --verbose\n  shoal bench cost --live 300");
  cost->callback([&line] { line.status = run_bench_cost(line.bench_cost); });
}

void add_bench_prefill(CLI::App& bench, CommandLine& line) {
  CLI::App* prefill = bench.add_subcommand(
      "prefill", "first tokens of recorded requests, by each way to choose a prefill instance");
  BenchPrefillOptions& o = line.bench_prefill;
  CLI::Option* cost =
      prefill->add_flag("--cost", o.cost, "measure the time of a placement instead");
  prefill->add_option("--trace", o.traces, "files of requests, see tests/sim/README.md")
      ->check(CLI::ExistingFile)
      ->excludes(cost);
  prefill->add_option("--policies", o.policies, "of these names; default: all")->delimiter(',');
  prefill->add_option("--instances", o.instances, "of 8 ranks each")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  prefill->add_option("--utilisation", o.utilisations, "share of the ranks' time")
      ->check(real(0.01, 10.0))
      ->capture_default_str();
  prefill->add_option("--from-hour", o.from_hour, "of the trace")->check(CLI::Range(0, 100000));
  prefill->add_option("--to-hour", o.to_hour, "of the trace; 0: its end")
      ->check(CLI::Range(0, 100000));
  prefill->add_option("--cold", o.cold, "tokens of a cold prompt that every instance gets first")
      ->check(CLI::Range(0, kMostTokens));
  prefill->add_option("--seeds", o.seeds, "runs whose mean is taken")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  prefill->add_flag(
      "--uncertain", o.uncertain, "reports are 50 ms old, predictions 20 % wrong (lognormal)");
  prefill->add_flag("--json", o.json, "a line of JSON a row");
  prefill->footer(
      "Example:\n  shoal bench prefill --trace tests/sim/traces/chat-800.jsonl.gz --instances 8 "
      "--utilisation 0.95");
  prefill->callback([&line] {
    if (line.bench_prefill.traces.empty() && !line.bench_prefill.cost) {
      throw CLI::RequiredError("--trace or --cost");
    }
    line.status = run_bench_prefill(line.bench_prefill);
  });
}

void add_bench_experts(CLI::App& bench, CommandLine& line) {
  CLI::App* experts = bench.add_subcommand(
      "experts", "load of ranks by each way to place experts and to split their tokens");
  BenchExpertsOptions& o = line.bench_experts;
  CLI::Option* windows =
      experts->add_option("--windows", o.windows, "file of loads, see tests/sim/README.md")
          ->check(CLI::ExistingFile);
  CLI::Option* steps = experts->add_option("--steps", o.steps, "file of single steps of them")
                           ->check(CLI::ExistingFile)
                           ->needs(windows);
  windows->needs(steps);
  experts->add_option("--stage", o.stage, "that was recorded: groups of 64 and 128, or of 8")
      ->check(CLI::IsMember({"decode", "prefill"}))
      ->needs(windows)
      ->capture_default_str();
  experts->add_option("--policies", o.policies, "placements of these names; default: all")
      ->delimiter(',');
  experts->add_option("--splits", o.splits, "of these names; default: all")->delimiter(',');
  experts->add_option("--seeds", o.seeds, "drawn loads whose mean is taken")
      ->check(CLI::Range(1, 1000))
      ->excludes(windows)
      ->capture_default_str();
  experts->add_flag("--cost", o.cost, "measure the time of plans and splits instead")
      ->excludes(windows);
  experts->add_flag("--json", o.json, "a line of JSON a row");
  experts->footer(
      "Figures of what did not happen (no change of domain) are 0.\n\nExample:\n  shoal bench "
      "experts --policies ours,eplb --splits fill,even");
  experts->callback([&line] { line.status = run_bench_experts(line.bench_experts); });
}

template <class Row>
CLI::Validator name_of(std::span<const Row> rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    names.emplace_back(row.name);
  }
  return CLI::IsMember(names);
}

void add_bench_autoscale(CLI::App& bench, CommandLine& line) {
  CLI::App* autoscale = bench.add_subcommand(
      "autoscale", "machines under recorded request rates: their cost, and when they were too few");
  BenchAutoscaleOptions& o = line.bench_autoscale;
  autoscale
      ->add_option("--trace", o.trace, "file of rates: CSV, plain or gzip, see tests/sim/traces")
      ->check(CLI::ExistingFile);
  autoscale->add_option("--policies", o.policies, "these, comma-separated; default: all")
      ->delimiter(',')
      ->check(name_of(autoscale_policies()));
  autoscale->add_option("--seeds", o.seeds, "draws of the requests whose mean is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  autoscale
      ->add_option(
          "--provisioning-s", o.provisioning_s, "until a unit that is asked for takes work")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  autoscale->add_option("--peak-units", o.peak_units, "that a service's highest rate needs")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  autoscale->add_flag("--cost", o.cost, "time of the decisions instead, microseconds");
  autoscale->add_flag("--json", o.json, "a line of JSON a row");
  autoscale->footer(
      "Examples:\n  shoal bench autoscale --trace tests/sim/traces/rates-2d.csv.gz\n"
      "  shoal bench autoscale --trace rates.csv.gz --policies ours,reactive --provisioning-s 60");
  autoscale->callback([&line] {
    if (line.bench_autoscale.trace.empty() && !line.bench_autoscale.cost) {
      throw CLI::RequiredError("--trace or --cost");
    }
    line.status = run_bench_autoscale(line.bench_autoscale);
  });
}

void add_bench_verify(CLI::App& bench, CommandLine& line) {
  CLI::App* verify = bench.add_subcommand(
      "verify", "how many drafts a decode step verifies: tokens a second over five for each");
  BenchVerifyOptions& o = line.bench_verify;
  verify->add_option("--policies", o.policies, "these, comma-separated; default: all")
      ->delimiter(',')
      ->check(name_of(verify_policies()));
  verify->add_option("--seeds", o.seeds, "loads whose mean is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verify->add_option("--ranks", o.ranks, "of the group, which step together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verify->add_option("--requests", o.requests, "of a rank, in the mean")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verify->add_option("--spread", o.spread, "ranks have up to such a share more or less of them")
      ->check(real(0.0, 1.0))
      ->capture_default_str();
  verify->add_option("--grain", o.grain, "steps are padded to a multiple of so many tokens")
      ->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64}))
      ->capture_default_str();
  verify->add_option("--steps", o.steps, "of each load")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verify->add_option("--head", o.head, "the head says the true logits times this; 1: the truth")
      ->check(real(0.1, 10.0))
      ->capture_default_str();
  verify->add_flag("--calibrate", o.calibrates, "fit temperatures of the head first");
  verify->add_flag("--cost", o.cost, "time of the decisions instead, microseconds");
  verify->add_flag("--json", o.json, "a line of JSON a row");
  verify->footer(
      "Examples:\n  shoal bench verify --ranks 1 --requests 512\n"
      "  shoal bench verify --policies group,greedy --spread 0.3\n"
      "  shoal bench verify --cost --ranks 64 --grain 8");
  verify->callback([&line] { line.status = run_bench_verify(line.bench_verify); });
}

// Of every benchmark of policies that replays traces.
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

void add_bench_decode(CLI::App& bench, CommandLine& line) {
  CLI::App* decode =
      bench.add_subcommand("decode", "policies that place answers on the ranks of a decode group");
  BenchDecodeOptions& o = line.bench_decode;
  add_policy_options(*decode, o.policy, row_names(decode_policies()));
  decode->add_option("--ranks", o.ranks, "ranks that step together")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  decode->add_option("--per-rank", o.per_rank, "answers a rank, were all ranks equal")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  decode->add_option("--contexts", o.contexts, "prompts of these lengths in place of the recorded")
      ->delimiter(',')
      ->check(CLI::Range(1, kMostTokens));
  decode->add_option("--moves", o.moves, "answers that may change ranks in a step, if a row moves")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  decode->footer(
      "Examples:\n  shoal bench decode --trace tests/sim/traces/agentic-600.jsonl.gz --per-rank "
      "32,93\n"
      "  shoal bench decode --cost --ranks 64,128");
  decode->callback([&line] {
    need_trace(line.bench_decode.policy);
    line.status = run_bench_decode(line.bench_decode);
  });
}

void add_bench_vision(CLI::App& bench, CommandLine& line) {
  CLI::App* vision =
      bench.add_subcommand("vision", "policies that place images on vision encoders");
  BenchVisionOptions& o = line.bench_vision;
  add_policy_options(*vision, o.policy, row_names(vision_policies()));
  vision->add_option("--encoders", o.encoders, "how many there are")
      ->delimiter(',')
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  vision
      ->add_option(
          "--utilisation", o.utilisations, "of the time that encoders work; scales arrivals")
      ->delimiter(',')
      ->check(real(0.01, 10.0))
      ->capture_default_str();
  vision->add_option("--repeated", o.repeated, "share of images that are one of the last 1,000")
      ->check(real(0.0, 1.0))
      ->capture_default_str();
  vision->add_option("--cache", o.cache, "embeddings that are kept; 0: encode every image")
      ->check(CLI::Range(0, 1000000000))
      ->capture_default_str();
  vision->footer(
      "Examples:\n  shoal bench vision --trace tests/sim/traces/vision-800.jsonl.gz --encoders 4\n"
      "  shoal bench vision --cost --encoders 16,64");
  vision->callback([&line] {
    need_trace(line.bench_vision.policy);
    line.status = run_bench_vision(line.bench_vision);
  });
}

}  // namespace

void add_bench(CLI::App& app, CommandLine& line) {
  CLI::App* bench = app.add_subcommand("bench", "measure this machine");
  bench->require_subcommand(1);
  bench->footer("Example:\n  shoal bench engine");
  CLI::App* engine =
      bench->add_subcommand("engine", "decode and prefill steps straight on the device");
  BenchEngineOptions& o = line.bench_engine;
  engine->add_option("--model", o.model, "model directory")
      ->check(not_empty())
      ->capture_default_str();
  engine->add_option("--prompt", o.prompt, "tokens in the cache before decode is timed")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  engine->add_option("--prefill", o.prefill, "tokens of the timed prefill")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  engine->add_option("--steps", o.steps, "decode steps a measurement")
      ->check(CLI::Range(3, 1000000))
      ->capture_default_str();
  engine->add_flag("--profile", o.profile, "time per operator");
  engine->footer("Example:\n  shoal bench engine --steps 200 --profile");
  engine->callback([&line] { line.status = run_bench_engine(line.bench_engine); });
  add_bench_experts(*bench, line);
  add_bench_cost(*bench, line);
  add_bench_kv(*bench, line);
  add_bench_prefill(*bench, line);
  add_bench_autoscale(*bench, line);
  add_bench_verify(*bench, line);
  add_bench_decode(*bench, line);
  add_bench_vision(*bench, line);
}

}  // namespace shoal::tools
