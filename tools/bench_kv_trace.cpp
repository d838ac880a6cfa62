// shoal bench kv --trace: what a KV store of some size hits of recorded requests, with the eviction
// that is shipped, with LRU, and at best. One line of JSON each.
#include "tools/bench_kv_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/sim/kv_replay.h"
#include "tools/commands.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

using sim::KvEviction;

KvEviction eviction_of(const std::string& policy) {
  return policy == "ours"  ? KvEviction::kWorth
         : policy == "lru" ? KvEviction::kLru
                           : KvEviction::kOptimal;
}

// "5%" of the different blocks, or a number of blocks.
std::int64_t blocks_of(const std::string& capacity, std::int64_t distinct) {
  const double number = std::strtod(capacity.c_str(), nullptr);
  const double blocks =
      capacity.ends_with('%') ? static_cast<double>(distinct) * number / 100 : number;
  return std::max<std::int64_t>(1, std::llround(blocks));
}

void print(const std::string& trace,
           const std::string& policy,
           std::int64_t capacity,
           std::int64_t distinct,
           const sim::KvReplay& replay) {
  std::printf(R"({"bench":"kv-trace","trace":"%s","requests":%lld,"distinct":%lld,"blocks":%lld,)"
              R"("percent":%.2f,"policy":"%s","hit":%.4f})"
              "\n",
              trace.c_str(),
              static_cast<long long>(replay.requests),
              static_cast<long long>(distinct),
              static_cast<long long>(capacity),
              100.0 * static_cast<double>(capacity) /
                  static_cast<double>(std::max<std::int64_t>(1, distinct)),
              policy.c_str(),
              replay.hit_rate());
}

Result<void> bench(const std::string& file, const BenchKvTraceOptions& o) {
  TRY(const auto requests, sim::read_trace(file, o.requests));
  const std::int64_t distinct = sim::distinct_blocks(requests);
  const std::string trace = std::filesystem::path(file).filename().string();
  ProgressBar bar(trace);
  const auto total = std::ssize(o.capacities) * std::ssize(o.policies);
  std::int64_t done = 0;
  for (const std::string& capacity : o.capacities) {
    for (const std::string& policy : o.policies) {
      const std::int64_t blocks = blocks_of(capacity, distinct);
      const sim::KvReplay replay = sim::replay_kv(requests, blocks, eviction_of(policy));
      print(trace, policy, blocks, distinct, replay);
      bar.update(++done, total);
    }
  }
  return {};
}

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

}  // namespace

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

int run_bench_kv_trace(const BenchKvTraceOptions& options) {
  for (const std::string& file : options.traces) {
    if (const Result<void> done = bench(file, options); !done) {
      return report(done.error());
    }
  }
  return 0;
}

}  // namespace shoal::tools
