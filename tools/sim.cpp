// shoal sim: scenarios under seeds, a table of what happened, and for every violated invariant the
// one command that shows it again.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "actors/topology_file.h"
#include "tests/sim/scenario.h"
#include "tools/commands.h"
#include "tools/log_lock.h"
#include "tools/process_ports.h"
#include "tools/progress_bar.h"
#include "tools/sim_journal.h"
#include "tools/sim_table.h"
#include "tools/status_line.h"

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;

struct Named {
  std::string file;  // empty: drawn from the seed
  scenario::Scenario scenario;
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
    const std::size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".txtpb") {
        files.push_back(entry.path().string());
      }
    }
    if (files.size() == before) {
      return fail(Code::kMisconfigured,
                  path + ": has no scenario files (*.txtpb); name another folder");
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

struct Run {
  SimOptions options;
  std::pair<std::uint64_t, std::uint64_t> seeds;
  std::vector<Named> scenarios;
  std::vector<std::string> roles;  // of drawn scenarios; none: options.nodes of them
  std::optional<sim::TraceSize> trace;
  std::optional<LogLock> log;
  std::optional<SimJournal> journal;
};

sim::TraceChoice trace_of(const SimOptions& options) {
  return {options.trace, options.requests, options.rate};
}

std::string number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// The options that, with a seed, give the runs of these scenarios.
std::string options_of(const SimOptions& options, const std::vector<std::string>& scenarios) {
  std::string words;
  for (const std::string& scenario : scenarios) {
    words += (words.empty() ? "--scenario " : " --scenario ") + scenario;
  }
  if (scenarios.empty()) {
    words = options.topology.empty() ? "--nodes " + std::to_string(options.nodes)
                                     : "--topology " + options.topology;
  }
  if (!options.trace.empty()) {
    words += " --trace " + options.trace + " --requests " + std::to_string(options.requests) +
             " --rate " + number(options.rate);
  }
  words += options.keeps_kv ? " --kv" : "";
  return words;
}

std::string replay(const SimOptions& options, const Named& named, std::uint64_t seed) {
  const std::vector<std::string> files(named.file.empty() ? 0 : 1, named.file);
  return "shoal sim " + options_of(options, files) + " --seed " + std::to_string(seed);
}

void print_shrunk(const Named& named, std::uint64_t seed, const std::string& invariant) {
  ProgressBar bar("shrinking");
  const scenario::Scenario smallest = sim::shrink(
      named.scenario, seed, invariant, [&bar](int runs) { bar.update(runs, runs + 1); });
  std::printf(
      "smallest scenario found; save it here as shrunk.txtpb and run `shoal sim --scenario "
      "shrunk.txtpb --seed %" PRIu64 "`:\n%s",
      seed,
      sim::scenario_text(smallest).c_str());
}

Result<void> write_events(const std::string& file, const std::vector<std::string>& events) {
  std::ofstream stream(file);
  for (const std::string& line : events) {
    stream << line << '\n';
  }
  if (!stream.flush()) {
    return fail(Code::kMisconfigured, file + ": cannot be written; name another file with --log");
  }
  return {};
}

void count(const sim::Outcome& outcome, SimTotals& totals) {
  ++totals.runs;
  totals.failed += outcome.violations.empty() ? 0 : 1;
  totals.messages += static_cast<std::int64_t>(outcome.messages);
  totals.time += outcome.time;
  totals.whole = std::max(totals.whole, outcome.whole);
  totals.settled = std::max(totals.settled, outcome.settled);
  add(outcome.answers, totals.answers);
  add(outcome.faults, totals.faults);
  add(outcome.counters, totals.counters);
  add(outcome.kv, totals.kv);
  for (const sim::Violation& violation : outcome.violations) {
    ++totals.invariants[violation.invariant];
  }
}

Result<void> tell_violations(Run& run,
                             const Named& named,
                             std::uint64_t seed,
                             const std::vector<sim::Violation>& violations) {
  const std::string again = replay(run.options, named, seed);
  std::printf("seed %" PRIu64 " violates:\n", seed);
  std::set<std::string> invariants;
  for (const sim::Violation& violation : violations) {
    invariants.insert(violation.invariant);
    print_violation(violation);
  }
  std::printf("  again: %s\n", again.c_str());
  if (run.options.shrink) {
    print_shrunk(named, seed, violations.front().invariant);
  }
  if (run.journal) {
    TRY_VOID(run.journal->record_violation(named.file, seed, invariants, again));
  }
  std::fflush(stdout);
  return {};
}

scenario::Scenario drawn(const Run& run, std::uint64_t seed) {
  scenario::Scenario scenario = run.roles.empty() ? sim::drawn_scenario(seed, run.options.nodes)
                                                  : sim::drawn_scenario(seed, run.roles);
  if (run.trace) {
    sim::play_trace(scenario, trace_of(run.options));
    sim::fit_to_trace(scenario, *run.trace);
  }
  if (run.options.keeps_kv) {
    scenario.mutable_store();
  }
  return scenario;
}

Result<void> run_seed(Run& run, Named& named, std::uint64_t seed, SimTotals& totals) {
  if (named.file.empty()) {
    named.scenario = drawn(run, seed);
  }
  const bool single = run.options.seeds.empty();
  const Instant began = monotonic_now();
  const sim::Outcome outcome =
      sim::run_scenario(named.scenario, {seed, single && !run.options.log.empty()});
  totals.took += monotonic_now() - began;
  count(outcome, totals);
  if (single) {
    std::printf("hash %016" PRIx64 "\n", outcome.hash);
  }
  if (single && !run.options.log.empty()) {
    TRY_VOID(write_events(run.options.log, outcome.events));
  }
  return outcome.violations.empty() ? Result<void>()
                                    : tell_violations(run, named, seed, outcome.violations);
}

std::atomic<int> stop_signal{0};

extern "C" void on_stop_signal(int signal) {
  stop_signal = signal;
}

// The first SIGINT or SIGTERM ends a range after the seed that runs, the next one the program.
void stop_after_a_seed() {
  struct sigaction action {};

  action.sa_handler = on_stop_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

// How far a run is: a bar on a terminal, else lines now and then.
class Display {
 public:
  Display(std::int64_t done, std::int64_t total)
      : done_(done),
        total_(total),
        status_("seeds", done, monotonic_now()) {}

  void seed_done() {
    bar_.update(++done_, total_);
    const auto line = status_.update(done_, total_, monotonic_now());
    if (line && ::isatty(STDERR_FILENO) == 0) {
      std::fprintf(stderr, "%s\n", line->c_str());
    }
  }

 private:
  ProgressBar bar_{"seeds", "seeds/s"};
  std::int64_t done_;
  std::int64_t total_;
  StatusLine status_;
};

// Goes on where the log ends, until the range ends or a signal comes.
Result<SimProgress> run_seeds(Run& run, Named& named, Display& display) {
  constexpr std::int64_t kSeedsALine = 100;
  constexpr Nanos kTimeALine = std::chrono::seconds(5);
  SimProgress progress = run.journal ? run.journal->recorded(named.file) : SimProgress{};
  Instant written = monotonic_now();
  for (std::uint64_t seed = progress.last ? *progress.last + 1 : run.seeds.first;
       seed <= run.seeds.second;
       ++seed) {
    const std::int64_t failed = progress.totals.failed;
    TRY_VOID(run_seed(run, named, seed, progress.totals));
    progress.last = seed;
    const bool is_stopped = stop_signal != 0;
    const bool is_due = is_stopped || seed == run.seeds.second || progress.totals.failed > failed ||
                        progress.totals.runs % kSeedsALine == 0 ||
                        monotonic_now() - written >= kTimeALine;
    if (run.journal && is_due) {
      TRY_VOID(run.journal->record(named.file, progress));
      written = monotonic_now();
    }
    display.seed_done();
    if (is_stopped) {
      break;
    }
  }
  return progress;
}

// What a scenario promises to reach must have been reached by some seed of a range; of a single run
// it is only said.
bool print_unreached(const Named& named, const Run& run, const SimTotals::Counts& counters) {
  const bool single = run.options.seeds.empty();
  const std::uint64_t seeds = run.seeds.second - run.seeds.first + 1;
  const char* said = single ? "this seed did not reach " : "never reached ";
  std::string more = single ? "; over a range some seed must" : ", in seeds " + run.options.seeds;
  if (!single && seeds < sim::kSeedsToReach) {
    more += ": give more, the files of tests/sim/scenarios reach theirs with --seeds 1.." +
            std::to_string(sim::kSeedsToReach);
  }
  bool all = true;
  for (const std::string& counter : named.scenario.reaches()) {
    if (!counters.contains(counter)) {
      std::printf("%s: %s%s%s\n", named.file.c_str(), said, counter.c_str(), more.c_str());
      all = false;
    }
  }
  return all || single;
}

// What was played, and what of it could not be.
void print_trace(const Run& run, const SimTotals& totals) {
  if (run.trace) {
    std::printf("trace       %s: %" PRId64 " requests over %.0f s",
                run.options.trace.c_str(),
                run.trace->requests,
                std::chrono::duration<double>(run.trace->span).count());
    if (run.options.rate != 1) {
      std::printf(", arrivals and pauses %s times shorter", number(run.options.rate).c_str());
    }
    std::printf("\n");
  }
  if (const auto left_out = totals.answers.find("too_long"); left_out != totals.answers.end()) {
    std::printf("too_long    %" PRId64
                " requests were not sent: with their answer they are longer than the context of "
                "the devices (device.blocks of the scenario)\n",
                left_out->second);
  }
}

Result<Run> plan_run(const SimOptions& options, std::pair<std::uint64_t, std::uint64_t> seeds) {
  Run run{options, seeds, {}, {}, {}, {}, {}};
  TRY(run.scenarios, read_scenarios(options.scenarios));
  TRY(run.roles, roles_of_topology(options.topology));
  if (!options.trace.empty()) {
    TRY(run.trace, sim::measure_trace(trace_of(options)));
    for (Named& named : run.scenarios) {
      sim::play_trace(named.scenario, trace_of(options));
    }
  }
  for (Named& named : run.scenarios) {
    if (options.keeps_kv) {
      named.scenario.mutable_store();
    }
  }
  if (run.scenarios.empty()) {
    run.scenarios.push_back({});
  }
  if (options.seeds.empty() && !options.log.empty() && is_range_log(options.log)) {
    return fail(Code::kMisconfigured,
                options.log +
                    ": is the log of a range of seeds, which the events of a single run would "
                    "overwrite; go on with it by --seeds, or name another file with --log");
  }
  if (!options.log.empty()) {
    TRY(run.log, LogLock::take(options.log));
  }
  if (!options.seeds.empty() && !options.log.empty()) {
    TRY(run.journal,
        SimJournal::open(options.log, options_of(options, options.scenarios), seeds.first));
  }
  return run;
}

// What the log of an earlier run has.
std::int64_t recorded_runs(const Run& run) {
  std::int64_t runs = 0;
  for (const Named& named : run.scenarios) {
    runs += run.journal ? run.journal->recorded(named.file).totals.runs : 0;
  }
  if (runs > 0) {
    std::printf("%s has %" PRId64 " runs already\n", run.options.log.c_str(), runs);
  }
  return runs;
}

// After a signal, whatever else the range has.
void print_stopped(const Run& run, const Named& named, std::uint64_t last) {
  std::printf(
      "stopped after seed %" PRIu64 "%s%s; %s\n",
      last,
      named.file.empty() ? "" : " of ",
      named.file.c_str(),
      run.journal ? "the same command goes on" : "with --log FILE the same command would go on");
}

// The exit status.
Result<int> run_all(Run& run) {
  SimTotals totals;
  bool all_reached = true;
  std::optional<std::pair<const Named*, std::uint64_t>> stopped;
  const std::uint64_t total = run.scenarios.size() * (run.seeds.second - run.seeds.first + 1);
  {
    Display display(recorded_runs(run), static_cast<std::int64_t>(total));
    for (Named& named : run.scenarios) {
      TRY(const SimProgress progress, run_seeds(run, named, display));
      add(progress.totals, totals);
      if (stop_signal != 0 &&
          (*progress.last < run.seeds.second || &named != &run.scenarios.back())) {
        stopped.emplace(&named, *progress.last);
        break;
      }
      all_reached &= print_unreached(named, run, progress.totals.counters);
    }
  }
  print_totals(totals);
  print_trace(run, totals);
  if (run.options.shrink && totals.failed == 0) {
    std::printf("nothing to shrink: every invariant held\n");
  }
  if (stopped) {
    print_stopped(run, *stopped->first, stopped->second);
  }
  const int clean = stopped ? 128 + stop_signal : 0;
  return totals.failed == 0 && all_reached ? clean : 1;
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
    stop_after_a_seed();
  }
  if (seeds.second == std::numeric_limits<std::uint64_t>::max()) {
    std::fprintf(stderr, "shoal: --seed, --seeds: a seed is a number from 0 to 2^64 - 2\n");
    return 2;
  }
  auto run = plan_run(options, seeds);
  if (!run) {
    return report(run.error());
  }
  const auto status = run_all(*run);
  return status ? *status : report(status.error());
}

}  // namespace shoal::tools
