// JSON Lines. The last line of a scenario counts; a line that ends without a line break was torn by
// the end of the program and is dropped, its seeds run again.
#include "tools/sim_journal.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

namespace shoal::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCommand[] = "shoal sim";

std::string header_of(const std::string& run, std::uint64_t first_seed) {
  return Json{{kCommand, run}, {"first_seed", first_seed}}.dump();
}

// The command in words; empty: not such a line.
std::string run_of(const std::string& header) {
  const Json json = Json::parse(header, nullptr, false);
  if (!json.is_object() || !json.contains("first_seed") ||
      !json.value(kCommand, Json()).is_string()) {
    return {};
  }
  return kCommand + (" " + json[kCommand].get<std::string>()) + " --seeds " +
         json["first_seed"].dump() + "..";
}

Json line_of(const std::string& scenario, const SimProgress& progress) {
  const SimTotals& totals = progress.totals;
  return {{"scenario", scenario},
          {"last", progress.last.value_or(0)},
          {"runs", totals.runs},
          {"violating", totals.failed},
          {"messages", totals.messages},
          {"took_ns", totals.took.count()},
          {"virtual_ns", totals.time.count()},
          {"whole_ns", totals.whole.count()},
          {"settled_ns", totals.settled.count()},
          {"answers", totals.answers},
          {"faults", totals.faults},
          {"violations", totals.invariants},
          {"reached", totals.counters},
          {"kv", totals.kv}};
}

// Throws what is wrong.
SimProgress progress_of(const Json& line) {
  SimProgress progress;
  SimTotals& totals = progress.totals;
  progress.last = line.at("last").get<std::uint64_t>();
  line.at("runs").get_to(totals.runs);
  line.at("violating").get_to(totals.failed);
  line.at("messages").get_to(totals.messages);
  totals.took = Nanos{line.at("took_ns").get<std::int64_t>()};
  totals.time = Nanos{line.at("virtual_ns").get<std::int64_t>()};
  totals.whole = Nanos{line.at("whole_ns").get<std::int64_t>()};
  totals.settled = Nanos{line.at("settled_ns").get<std::int64_t>()};
  line.at("answers").get_to(totals.answers);
  line.at("faults").get_to(totals.faults);
  line.at("violations").get_to(totals.invariants);
  line.at("reached").get_to(totals.counters);
  line.at("kv").get_to(totals.kv);
  return progress;
}

}  // namespace

void add(const SimTotals::Counts& from, SimTotals::Counts& to) {
  for (const auto& [name, count] : from) {
    to[name] += count;
  }
}

void add(const SimTotals& from, SimTotals& to) {
  to.runs += from.runs;
  to.failed += from.failed;
  to.messages += from.messages;
  to.took += from.took;
  to.time += from.time;
  to.whole = std::max(to.whole, from.whole);
  to.settled = std::max(to.settled, from.settled);
  add(from.answers, to.answers);
  add(from.faults, to.faults);
  add(from.invariants, to.invariants);
  add(from.counters, to.counters);
  add(from.kv, to.kv);
}

bool is_range_log(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return false;  // reading a pipe would wait for its writer
  }
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) && !run_of(line).empty();
}

Result<SimJournal> SimJournal::open(const std::filesystem::path& file,
                                    const std::string& run,
                                    std::uint64_t first_seed) {
  SimJournal journal(file, header_of(run, first_seed));
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    TRY_VOID(journal.read());
  }
  journal.out_.open(file, std::ios::app);
  if (journal.out_.tellp() <= 0) {
    TRY_VOID(journal.append(journal.header_));
  }
  return journal;
}

Result<void> SimJournal::read() {
  std::ostringstream content;
  content << std::ifstream(file_).rdbuf();
  std::string text = content.str();
  const auto whole = text.rfind('\n') + 1;
  if (whole == 0 && !(header_ + '\n').starts_with(text)) {
    return tl::unexpected(other_run(text));
  }
  std::istringstream lines(text.substr(0, whole));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    TRY_VOID(take(line, number));
  }
  std::error_code error;
  std::filesystem::resize_file(file_, whole, error);
  if (error) {
    return fail(Code::kMisconfigured, file_.string() + ": " + error.message());
  }
  return {};
}

Result<void> SimJournal::take(const std::string& line, int number) {
  if (number == 1) {
    return line == header_ ? Result<void>() : tl::unexpected(other_run(line));
  }
  try {
    const Json json = Json::parse(line);
    if (!json.contains("seed")) {
      recorded_[json.at("scenario").get<std::string>()] = progress_of(json);
    }
  } catch (const nlohmann::json::exception& wrong) {
    return fail(Code::kMisconfigured,
                file_.string() + ":" + std::to_string(number) + ": " + wrong.what() +
                    "; remove the line, or name another file with --log");
  }
  return {};
}

Error SimJournal::other_run(const std::string& found) const {
  const std::string run = run_of(found);
  const std::string what = run.empty()
                               ? "is not the log of a range of seeds"
                               : "is the log of `" + run + "`, this is `" + run_of(header_) + "`";
  return {Code::kMisconfigured, file_.string() + ": " + what + "; name another file with --log"};
}

SimProgress SimJournal::recorded(const std::string& scenario) const {
  const auto known = recorded_.find(scenario);
  return known == recorded_.end() ? SimProgress{} : known->second;
}

Result<void> SimJournal::record(const std::string& scenario, const SimProgress& progress) {
  return append(line_of(scenario, progress).dump());
}

Result<void> SimJournal::record_violation(const std::string& scenario,
                                          std::uint64_t seed,
                                          const std::set<std::string>& invariants,
                                          const std::string& again) {
  return append(
      Json{{"scenario", scenario}, {"seed", seed}, {"violates", invariants}, {"again", again}}
          .dump());
}

Result<void> SimJournal::append(const std::string& line) {
  out_ << line << '\n';
  if (!out_.flush()) {
    return fail(Code::kMisconfigured,
                file_.string() + ": cannot be written; name another file with --log");
  }
  return {};
}

}  // namespace shoal::tools
