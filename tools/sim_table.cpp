// The table after the runs, and the timeline of a violation.
#include "tools/sim_table.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

namespace shoal::tools {
namespace {

constexpr std::size_t kTitle = 11;
constexpr std::size_t kColumns = 110;
constexpr std::size_t kTimelineLines = 80;

double in_seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

void print_counts(std::string title, const SimTotals::Counts& counts) {
  std::string line = std::move(title);
  line.resize(kTitle, ' ');
  for (const auto& [name, count] : counts) {
    const std::string word = " " + name + " " + std::to_string(count);
    if (line.size() + word.size() > kColumns) {
      std::puts(line.c_str());
      line.assign(kTitle, ' ');
    }
    line += word;
  }
  std::puts((counts.empty() ? line + " none" : line).c_str());
}

}  // namespace

void print_totals(const SimTotals& totals) {
  const double seconds = in_seconds(totals.took);
  std::printf("runs %" PRId64 ", violating %" PRId64
              ", %.1f seeds/s, %.0f x real time, %.0f "
              "messages/s\n",
              totals.runs,
              totals.failed,
              static_cast<double>(totals.runs) / seconds,
              in_seconds(totals.time) / seconds,
              static_cast<double>(totals.messages) / seconds);
  std::printf(
      "recovery    whole again at most %.2f s after faults and arrivals ended, all over at "
      "most %.2f s after that\n",
      in_seconds(totals.whole),
      in_seconds(totals.settled));
  print_counts("answers", totals.answers);
  print_counts("faults", totals.faults);
  print_counts("reached", totals.counters);
  if (!totals.kv.empty()) {
    print_counts("kv", totals.kv);
  }
  print_counts("violations", totals.invariants);
}

void print_violation(const sim::Violation& violation) {
  std::printf("  %s: %s\n", violation.invariant.c_str(), violation.what.c_str());
  for (std::size_t i = 0; i < violation.timeline.size(); ++i) {
    if (i == kTimelineLines) {
      std::printf("    ... %zu more\n", violation.timeline.size() - kTimelineLines);
      break;
    }
    std::printf("    %s\n", violation.timeline[i].c_str());
  }
}

}  // namespace shoal::tools
