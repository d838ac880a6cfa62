// shoal bench vision: how soon the images of recorded requests are encoded under each policy; and
// what a decision costs.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/policy/draw.h"
#include "tests/sim/fleet/vision_replay.h"
#include "tools/bench_command_line.h"
#include "tools/bench_policy.h"
#include "tools/commands.h"
#include "tools/decision_cost.h"
#include "tools/figure_table.h"
#include "tools/flag_checks.h"
#include "tools/policy_rows.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

struct BenchVisionOptions {
  BenchPolicyOptions policy;
  std::vector<std::int64_t> encoders{16};
  std::vector<double> utilisations{0.85};
  double repeated = 0;     // share of images that came before
  std::int64_t cache = 0;  // embeddings that are kept; 0: all images are encoded
};

// So many embeddings of the largest images, 1,024 tokens of 5,120 two-byte values.
ImageCacheLimits cache_of(std::int64_t items) {
  return {.items = items, .bytes = Bytes{items * 1'024 * 10'240}, .encoding = items};
}

std::vector<double> figures(const BenchVisionOptions& o,
                            std::span<const sim::TraceRequest> requests,
                            sim::VisionFleet fleet,
                            const VisionRow& row) {
  std::vector<double> sums(8);
  for (int seed = 1; seed <= o.policy.seeds; ++seed) {
    fleet.seed = static_cast<std::uint64_t>(seed);
    sim::VisionReplay replay = sim::replay_vision(requests, fleet, row);
    const double of[] = {replay.ready_ms.mean(),
                         replay.ready_ms.quantile(0.5),
                         replay.ready_ms.quantile(0.99),
                         replay.ready_ms.quantile(0.999),
                         replay.ready_ms.quantile(1),
                         replay.wait_ms.quantile(0.99),
                         replay.busy,
                         static_cast<double>(replay.encoded) / static_cast<double>(replay.images)};
    for (std::size_t f = 0; f < sums.size(); ++f) {
      sums[f] += of[f] / o.policy.seeds;
    }
  }
  return sums;
}

bool has_images(const sim::TraceRequest& request) {
  return !request.image_tokens.empty();
}

Result<void> replay(const BenchVisionOptions& o, FigureTable& table) {
  const auto rows = chosen_rows(vision_policies(), o.policy.policies);
  ProgressBar bar("vision");
  const auto total = std::ssize(o.policy.traces) * std::ssize(o.encoders) *
                     std::ssize(o.utilisations) * std::ssize(rows);
  std::int64_t done = 0;
  for (const std::string& file : o.policy.traces) {
    TRY(const auto requests, sim::read_trace(file, o.policy.requests));
    if (std::none_of(requests.begin(), requests.end(), has_images)) {
      return fail(Code::kMisconfigured, file + ": no request has image_tokens; name another trace");
    }
    for (const std::int64_t encoders : o.encoders) {
      for (const double utilisation : o.utilisations) {
        const sim::VisionFleet fleet{.encoders = static_cast<std::size_t>(encoders),
                                     .utilisation = utilisation,
                                     .repeated = o.repeated,
                                     .cache = cache_of(o.cache)};
        for (const VisionRow& row : rows) {
          std::vector<double> numbers{static_cast<double>(encoders), utilisation};
          const auto measured = figures(o, requests, fleet, row);
          numbers.insert(numbers.end(), measured.begin(), measured.end());
          table.add(
              {std::filesystem::path(file).filename().string(), std::string(row.name)}, numbers, 4);
          bar.update(++done, total);
        }
      }
    }
  }
  return {};
}

// One image comes and one is begun, while 200 requests of one to three images wait.
double decision_of(const VisionRow& row, std::int64_t encoders) {
  const auto policy = row.make({.encoders = static_cast<std::size_t>(encoders)});
  Draw draw(1);
  std::uint64_t requests = 0;
  const auto arrive = [&](std::size_t images) {
    std::vector<std::int64_t> patches(images);
    for (std::int64_t& image : patches) {
      image = static_cast<std::int64_t>(1 + draw.below(9'216));
    }
    const Instant now{Nanos{static_cast<std::int64_t>(requests) * 1'000'000}};
    policy->arrive({.id = ++requests, .patches = patches}, now);
    return now;
  };
  while (requests < 200) {
    arrive(1 + draw.below(3));
  }
  std::size_t encoder = 0;
  return decision_ns([&] {
    const Instant now = arrive(1);
    policy->next(encoder++ % static_cast<std::size_t>(encoders), now);
  });
}

int run_bench(const BenchVisionOptions& options) {
  if (options.policy.cost) {
    FigureTable table("vision-cost", {"policy"}, {"encoders", "decision_ns"});
    for (const VisionRow& row : chosen_rows(vision_policies(), options.policy.policies)) {
      for (const std::int64_t encoders : options.encoders) {
        table.add({std::string(row.name)},
                  {static_cast<double>(encoders), decision_of(row, encoders)},
                  0);
      }
    }
    table.print(options.policy.json);
    return 0;
  }
  FigureTable table("vision",
                    {"trace", "policy"},
                    {"encoders",
                     "utilisation",
                     "ready_ms",
                     "ready_p50_ms",
                     "ready_p99_ms",
                     "ready_p99_9_ms",
                     "ready_max_ms",
                     "image_wait_p99_ms",
                     "busy_max_over_mean",
                     "encoded_share"});
  if (const auto done = replay(options, table); !done) {
    return report(done.error());
  }
  table.print(options.policy.json);
  return 0;
}

}  // namespace

void add_bench_vision(CLI::App& bench, int& status) {
  CLI::App* vision =
      bench.add_subcommand("vision", "policies that place images on vision encoders");
  const auto options = std::make_shared<BenchVisionOptions>();
  BenchVisionOptions& o = *options;
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
  vision->callback([options, &status] {
    need_trace(options->policy);
    status = run_bench(*options);
  });
}

}  // namespace shoal::tools
