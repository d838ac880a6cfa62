// The log of a run over a range of seeds: a line that says what is run, then lines with the totals
// so far, and one for each seed that violates. They are written as seeds finish, so that a run that
// was interrupted goes on after its last line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::tools {

struct SimTotals {
  using Counts = std::map<std::string, std::int64_t>;

  std::int64_t runs = 0;
  std::int64_t failed = 0;
  std::int64_t messages = 0;
  Nanos took{0};     // real
  Nanos time{0};     // virtual
  Nanos whole{0};    // the slowest, as of sim::Outcome
  Nanos settled{0};  // likewise
  Counts answers;
  Counts faults;
  Counts invariants;  // violated
  Counts counters;
  Counts kv;
};

void add(const SimTotals::Counts& from, SimTotals::Counts& to);
void add(const SimTotals& from, SimTotals& to);

// Of one scenario.
struct SimProgress {
  std::optional<std::uint64_t> last;  // seed that is done; none: not even the first
  SimTotals totals;
};

// The file begins as such a log does.
bool is_range_log(const std::filesystem::path& file);

class SimJournal {
 public:
  // `run` says in options of the command what is run from `first_seed` on. A file that is not there
  // is begun. kMisconfigured: it is the log of another run, or no log.
  static Result<SimJournal> open(const std::filesystem::path& file,
                                 const std::string& run,
                                 std::uint64_t first_seed);

  // Of a scenario, by its file.
  SimProgress recorded(const std::string& scenario) const;
  Result<void> record(const std::string& scenario, const SimProgress& progress);
  Result<void> record_violation(const std::string& scenario,
                                std::uint64_t seed,
                                const std::set<std::string>& invariants,
                                const std::string& again);

 private:
  SimJournal(std::filesystem::path file, std::string header)
      : file_(std::move(file)),
        header_(std::move(header)) {}

  Result<void> read();
  Result<void> take(const std::string& line, int number);
  Result<void> append(const std::string& line);
  Error other_run(const std::string& found) const;

  std::filesystem::path file_;
  std::string header_;
  std::map<std::string, SimProgress> recorded_;
  std::ofstream out_;
};

}  // namespace shoal::tools
