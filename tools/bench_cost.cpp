// shoal bench cost: how well the cost model predicts steps of this machine: of shapes that it has
// not seen, and of a served load while it learns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "actors/policy/cost_fit.h"
#include "kernels/registry.h"
#include "tools/bench_command_line.h"
#include "tools/commands.h"
#include "tools/cost_recorder.h"
#include "tools/figure_table.h"
#include "tools/flag_checks.h"
#include "tools/http_client.h"
#include "tools/local_server.h"

namespace shoal::tools {

namespace {

struct BenchCostOptions {
  std::string model;
  int repeats = 5;       // of each shape; the median counts
  int seconds = 300;     // no further shape is begun after so many
  bool verbose = false;  // a row a shape
  std::string record;    // file that gets the recorded times
  int live = 0;          // requests that are served instead; 0: none
  bool json = false;
};

// Over and over, as a server sees the same shapes again.
constexpr int kPasses = 10;

double milliseconds_of(Nanos time) {
  return static_cast<double>(time.count()) * 1e-6;
}

// The thread's time or the wall's.
using Clock = Nanos RecordedStep::*;

double error_of(const CostFit& fit, const RecordedStep& step, Clock clock) {
  const auto took = static_cast<double>((step.*clock).count());
  const auto predicted = static_cast<double>(fit.model().step(step.shape.work()).count());
  return (predicted > took ? predicted - took : took - predicted) / took;
}

// Every other one, and of the next pair the other: shapes come in pairs, without and with the
// decoder half.
bool is_held_out(std::size_t i) {
  return (i + i / 2) % 2 != 0;
}

CostFit fit_half(const std::vector<RecordedStep>& steps, Clock clock) {
  CostFit fit(CostCoefficients{.step = Nanos{500'000}, .row_ps = 150'000'000, .pair_fs = 100'000});
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!is_held_out(i)) {
        fit.add(steps[i].shape.work(), steps[i].*clock);
      }
    }
  }
  return fit;
}

void print_shapes(const std::string& stage,
                  const std::vector<RecordedStep>& steps,
                  const CostFit& fit,
                  Clock clock,
                  bool json) {
  FigureTable table("cost-shapes",
                    {"stage", "half"},
                    {"runs", "rows", "start", "deep", "ms", "predicted_ms", "error_percent"});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepShape& shape = steps[i].shape;
    if (steps[i].wall == Nanos{0}) {
      continue;
    }
    table.add({stage, is_held_out(i) ? "held out" : "fitted"},
              {static_cast<double>(shape.runs),
               static_cast<double>(shape.rows),
               static_cast<double>(shape.start),
               static_cast<double>(shape.deep),
               milliseconds_of(steps[i].*clock),
               milliseconds_of(fit.model().step(shape.work())),
               100 * error_of(fit, steps[i], clock)},
              2);
  }
  table.print(json);
}

struct Half {
  double steps = 0;
  double sum = 0;
  double worst = 0;

  void add(double error) {
    ++steps;
    sum += error;
    worst = std::max(worst, error);
  }

  double mean() const { return steps > 0 ? sum / steps : 0; }
};

struct Judged {
  std::string stage;
  std::string clock;
  Clock time;
};

void judge(const Judged& by,
           const std::vector<RecordedStep>& steps,
           int times,
           const BenchCostOptions& o,
           FigureTable& table) {
  const CostFit fit = fit_half(steps, by.time);
  Half fitted;
  Half held_out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].wall > Nanos{0}) {
      (is_held_out(i) ? held_out : fitted).add(error_of(fit, steps[i], by.time));
    }
  }
  const CostCoefficients& k = fit.model().coefficients();
  table.add({by.stage, by.clock},
            {static_cast<double>(times),
             held_out.steps,
             100 * fitted.mean(),
             100 * held_out.mean(),
             100 * held_out.worst,
             static_cast<double>(k.step.count()) * 1e-3,
             static_cast<double>(k.row_ps) * 1e-6,
             static_cast<double>(k.near_fs) * 1e-6,
             static_cast<double>(k.pair_fs) * 1e-6,
             static_cast<double>(k.deep_row_ps) * 1e-6,
             static_cast<double>(k.deep_pair_fs) * 1e-6},
            2);
  if (o.verbose) {
    print_shapes(by.stage + ", " + by.clock, steps, fit, by.time, o.json);
  }
}

Result<void> write_record(const std::vector<RecordedStep>& steps, const std::string& path) {
  std::ofstream file(path);
  for (const RecordedStep& step : steps) {
    const StepShape& s = step.shape;
    if (step.wall == Nanos{0}) {
      continue;
    }
    file << (s.decode ? "decode " : "prefill ") << s.runs << ' ' << s.rows << ' ' << s.start << ' '
         << (s.decode ? 0 : s.deep) << ' ' << step.took.count() << '\n';
  }
  file.flush();
  return file ? Result<void>() : fail(Code::kMisconfigured, "--record: cannot write " + path);
}

Result<void> bench_shapes(const BenchCostOptions& o) {
  kernels::DeviceConfig config;
  config.model = o.model;
  config.sequences = kRecorderSequences;
  config.kv_blocks = kRecorderBlocks;
  TRY(const auto device, kernels::open_device("cpu", config));
  std::fprintf(stderr,
               "bench cost: %zu shapes, %d times each, for %d s at most\n",
               step_shapes().size(),
               o.repeats,
               o.seconds);
  TRY(const Record record,
      record_steps(device->backend(), o.repeats, std::chrono::seconds(o.seconds)));
  if (!o.record.empty()) {
    TRY_VOID(write_record(record.steps, o.record));
  }
  FigureTable table("cost",
                    {"stage", "clock"},
                    {"times",
                     "held_out",
                     "fitted_mape_percent",
                     "mape_percent",
                     "worst_percent",
                     "step_us",
                     "row_us",
                     "near_ns",
                     "pair_ns",
                     "deep_row_us",
                     "deep_pair_ns"});
  for (const bool decode : {false, true}) {
    std::vector<RecordedStep> of_stage;
    for (const RecordedStep& step : record.steps) {
      if (step.shape.decode == decode) {
        of_stage.push_back(step);
      }
    }
    const std::string stage = decode ? "decode" : "prefill";
    judge({stage, "thread", &RecordedStep::took}, of_stage, record.times, o, table);
    judge({stage, "wall", &RecordedStep::wall}, of_stage, record.times, o, table);
  }
  table.print(o.json);
  return {};
}

// The value of one line of a page of metrics; 0 without one.
double metric(const std::string& page, const std::string& name) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) {
      return std::stod(line.substr(name.size()));
    }
  }
  return 0;
}

std::string completion(const std::string& model, int number) {
  std::string prompt;
  const int tokens = 20 + number * 7'919 % 1'800;
  for (int i = 0; i < tokens; ++i) {
    prompt += (i == 0 ? "" : ",") + std::to_string(3 + (number * 131 + i * 7) % 2'000);
  }
  return R"({"model":")" + model + R"(","ignore_eos":true,"max_tokens":)" +
         std::to_string(4 + number % 29) + R"(,"prompt":[)" + prompt + "]}";
}

Result<void> bench_live(const BenchCostOptions& o) {
  Config config;
  config.mutable_model()->set_path(o.model);
  config.mutable_http()->set_port(0);
  config.mutable_kv()->set_store("none");
  config.mutable_log()->set_level("error");
  TRY(const auto server, LocalServer::start(config));
  TRY(const ServerAddress address, parse_url(server->url()));
  constexpr int kClients = 6;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&address, &o, &server, c] {
      const HttpClient client(address, "", -1);
      for (int i = c; i < o.live; i += kClients) {
        static_cast<void>(client.post(
            "/v1/completions", completion(server->model_name(), i), [](std::string_view) {}));
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  TRY(const HttpReply page, HttpClient(address, "", -1).get("/metrics"));
  FigureTable table("cost-live", {"stage"}, {"steps", "error_percent", "late_percent"});
  for (const std::string stage : {"prefill", "decode"}) {
    const std::string name = "shoal_" + stage + "_cost_";
    table.add({stage},
              {metric(page.body, name + "steps"),
               metric(page.body, name + "error_ppm") * 1e-4,
               metric(page.body, name + "late_ppm") * 1e-4},
              2);
  }
  table.print(o.json);
  return {};
}

int run_bench(const BenchCostOptions& options) {
  const Result<void> done = options.live > 0 ? bench_live(options) : bench_shapes(options);
  return done ? 0 : report(done.error());
}

}  // namespace

void add_bench_cost(CLI::App& bench, int& status) {
  CLI::App* cost = bench.add_subcommand(
      "cost",
      "how well the cost model predicts steps of the device: fitted to half of many shapes");
  const auto options = std::make_shared<BenchCostOptions>();
  BenchCostOptions& o = *options;
  o.model = SHOAL_BUILTIN_MODEL;
  cost->add_option("--model", o.model, "model directory")
      ->check(not_empty())
      ->default_str("the built-in one");
  CLI::Option* repeats =
      cost->add_option("--repeats", o.repeats, "of each shape, the median counts")
          ->check(CLI::Range(1, 1000))
          ->capture_default_str();
  CLI::Option* seconds =
      cost->add_option("--seconds", o.seconds, "record for so long at most, repeating less often")
          ->check(CLI::Range(1, 86'400))
          ->capture_default_str();
  CLI::Option* verbose = cost->add_flag("--verbose", o.verbose, "a row a shape");
  CLI::Option* record = cost->add_option("--record", o.record, "file that gets the recorded times")
                            ->check(not_empty());
  cost->add_option("--live", o.live, "serve so many requests instead, and print the live error")
      ->check(CLI::Range(1, 1000000))
      ->excludes(repeats)
      ->excludes(seconds)
      ->excludes(verbose)
      ->excludes(record);
  cost->add_flag("--json", o.json, "a line of JSON a row");
  cost->footer(
      "Errors are by the time of the computing thread, and by the clock on the wall, which runs "
      "on\n"
      "while other programs compute.\n\n"
      "Examples:\n  shoal bench cost --verbose\n  shoal bench cost --seconds 30\n"
      "  shoal bench cost --live 300");
  cost->callback([options, &status] { status = run_bench(*options); });
}

}  // namespace shoal::tools
