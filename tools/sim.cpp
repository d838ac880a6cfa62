// shoal sim: scenarios under seeds, a table of what happened, and for every violated invariant the
// one command that shows it again.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "actors/topology_file.h"
#include "tests/sim/scenario.h"
#include "tools/commands.h"
#include "tools/process_ports.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;

struct Named {
  std::string file;  // empty: drawn from the seed
  scenario::Scenario scenario;
};

using Counts = std::map<std::string, std::int64_t>;

struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t failed = 0;
  std::uint64_t messages = 0;
  Nanos time{0};
  Nanos settled{0};  // the slowest
  Counts answers;
  Counts faults;
  Counts invariants;
  Counts counters;
};

std::optional<std::pair<std::uint64_t, std::uint64_t>> range_of(const std::string& text) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) {
    return std::nullopt;
  }
  std::pair<std::uint64_t, std::uint64_t> range;
  const char* end = text.data() + text.size();
  const auto low = std::from_chars(text.data(), text.data() + dots, range.first);
  const auto high = std::from_chars(text.data() + dots + 2, end, range.second);
  const bool is_range = low.ec == std::errc{} && low.ptr == text.data() + dots &&
                        high.ec == std::errc{} && high.ptr == end && range.first <= range.second;
  return is_range ? std::optional(range) : std::nullopt;
}

Result<std::vector<Named>> read_scenarios(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".txtpb") {
        files.push_back(entry.path().string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Named> scenarios;
  for (const std::string& file : files) {
    TRY(scenario::Scenario scenario, sim::read_scenario(file));
    scenarios.push_back({file, std::move(scenario)});
  }
  return scenarios;
}

void add(const Counts& from, Counts& to) {
  for (const auto& [name, count] : from) {
    to[name] += count;
  }
}

void print_counts(const char* title, const Counts& counts) {
  std::printf("%-11s", title);
  for (const auto& [name, count] : counts) {
    std::printf(" %s %" PRId64, name.c_str(), count);
  }
  std::printf("\n");
}

// The owner first, as scenarios have it. None: as many nodes as were asked for.
Result<std::vector<std::string>> roles_of_topology(const std::string& file) {
  std::vector<std::string> roles;
  if (file.empty()) {
    return roles;
  }
  TRY(const ClusterPlan plan, read_topology(file));
  for (std::uint32_t n = 0; n < plan.topology.nodes.size(); ++n) {
    std::string words = role_names(plan.topology.nodes[n].roles);
    std::erase(words, ',');
    const bool owner = NodeId{n} == plan.topology.owner;
    roles.insert(owner ? roles.begin() : roles.end(), std::move(words));
  }
  return roles;
}

std::string replay(const SimOptions& options, const Named& named, std::uint64_t seed) {
  const std::string where = !named.file.empty() ? "--scenario " + named.file
                            : !options.topology.empty()
                                ? "--topology " + options.topology
                                : "--nodes " + std::to_string(options.nodes);
  return "shoal sim " + where + " --seed " + std::to_string(seed);
}

void print_violation(const sim::Violation& violation) {
  std::printf("  %s: %s\n", violation.invariant.c_str(), violation.what.c_str());
  constexpr std::size_t kLines = 40;
  for (std::size_t i = 0; i < violation.timeline.size(); ++i) {
    if (i == kLines) {
      std::printf("    ... %zu more\n", violation.timeline.size() - kLines);
      break;
    }
    std::printf("    %s\n", violation.timeline[i].c_str());
  }
}

void print_shrunk(const Named& named, std::uint64_t seed, const std::string& invariant) {
  ProgressBar bar("shrinking");
  const scenario::Scenario smallest = sim::shrink(
      named.scenario, seed, invariant, [&bar](int runs) { bar.update(runs, runs + 1); });
  std::printf("smallest scenario found (run it with --seed %" PRIu64 "):\n%s",
              seed,
              sim::scenario_text(smallest).c_str());
}

int write_log(const std::string& file, const std::vector<std::string>& events) {
  std::ofstream stream(file);
  for (const std::string& line : events) {
    stream << line << '\n';
  }
  if (!stream.flush()) {
    return report(Error{Code::kMisconfigured, file + ": cannot be written"});
  }
  return 0;
}

int run_one(const SimOptions& options, const Named& named, std::uint64_t seed, Totals& totals) {
  const bool single = options.seeds.empty();
  const sim::Outcome outcome = sim::run_scenario(named.scenario, {seed, !options.log.empty()});
  ++totals.runs;
  totals.messages += outcome.messages;
  totals.time += outcome.time;
  totals.settled = std::max(totals.settled, outcome.settled);
  add(outcome.answers, totals.answers);
  add(outcome.faults, totals.faults);
  add(outcome.counters, totals.counters);
  if (single) {
    std::printf("hash %016" PRIx64 "\n", outcome.hash);
  }
  if (!options.log.empty()) {
    if (const int status = write_log(options.log, outcome.events); status != 0) {
      return status;
    }
  }
  if (!outcome.violations.empty()) {
    ++totals.failed;
    std::printf("seed %" PRIu64 " violates:\n", seed);
    for (const sim::Violation& violation : outcome.violations) {
      ++totals.invariants[violation.invariant];
      print_violation(violation);
    }
    std::printf("  again: %s\n", replay(options, named, seed).c_str());
    if (options.shrink) {
      print_shrunk(named, seed, outcome.violations.front().invariant);
    }
  }
  return 0;
}

// What a scenario promises to reach must have been reached by some seed of a range.
bool print_unreached(const Named& named, const Counts& counters) {
  bool all = true;
  for (const std::string& counter : named.scenario.reaches()) {
    if (!counters.contains(counter)) {
      std::printf("%s: never reached %s\n", named.file.c_str(), counter.c_str());
      all = false;
    }
  }
  return all;
}

void print_totals(const Totals& totals, Nanos took) {
  const double seconds = std::chrono::duration<double>(took).count();
  std::printf("runs %" PRIu64 ", violating %" PRIu64
              ", %.1f seeds/s, %.0f x real time, %.0f "
              "messages/s\n",
              totals.runs,
              totals.failed,
              static_cast<double>(totals.runs) / seconds,
              std::chrono::duration<double>(totals.time).count() / seconds,
              static_cast<double>(totals.messages) / seconds);
  std::printf("settled     at most %.2f s after the last fault\n",
              std::chrono::duration<double>(totals.settled).count());
  print_counts("answers", totals.answers);
  print_counts("faults", totals.faults);
  print_counts("reached", totals.counters);
  print_counts("violations", totals.invariants);
}

}  // namespace

int run_sim(const SimOptions& options) {
  std::pair<std::uint64_t, std::uint64_t> seeds{options.seed, options.seed};
  if (!options.seeds.empty()) {
    const auto range = range_of(options.seeds);
    if (!range) {
      std::fprintf(stderr,
                   "shoal: --seeds: \"%s\" is not a range A..B with A <= B\n",
                   options.seeds.c_str());
      return 2;
    }
    seeds = *range;
  }
  auto scenarios = read_scenarios(options.scenarios);
  if (!scenarios) {
    return report(scenarios.error());
  }
  if (scenarios->empty()) {
    scenarios->push_back({});
  }
  const auto roles = roles_of_topology(options.topology);
  if (!roles) {
    return report(roles.error());
  }
  const Instant began = monotonic_now();
  Totals totals;
  bool all_reached = true;
  ProgressBar bar("seeds");
  const std::uint64_t total = scenarios->size() * (seeds.second - seeds.first + 1);
  for (Named& named : *scenarios) {
    const Counts before = std::exchange(totals.counters, {});
    for (std::uint64_t seed = seeds.first; seed <= seeds.second; ++seed) {
      if (named.file.empty()) {
        named.scenario = roles->empty() ? sim::drawn_scenario(seed, options.nodes)
                                        : sim::drawn_scenario(seed, *roles);
      }
      if (const int status = run_one(options, named, seed, totals); status != 0) {
        return status;
      }
      bar.update(static_cast<std::int64_t>(totals.runs), static_cast<std::int64_t>(total));
    }
    all_reached &= options.seeds.empty() || print_unreached(named, totals.counters);
    add(before, totals.counters);
  }
  print_totals(totals, monotonic_now() - began);
  return totals.failed == 0 && all_reached ? 0 : 1;
}

}  // namespace shoal::tools
