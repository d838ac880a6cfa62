// Every scenario file holds its invariants over a range of seeds and reaches what it promises;
// drawn scenarios hold theirs.
#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/counters.h"
#include "tests/sim/scenario.h"

using namespace shoal;
using namespace shoal::sim;

namespace {

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SHOAL_SCENARIOS)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void check_clean(const Outcome& outcome) {
  for (const Violation& violation : outcome.violations) {
    std::string timeline;
    for (const std::string& line : violation.timeline) {
      timeline += "\n  " + line;
    }
    FAIL_CHECK(violation.invariant << ": " << violation.what << timeline);
  }
}

}  // namespace

TEST_CASE("every scenario file holds its invariants and reaches what it promises") {
  constexpr std::uint64_t kSeeds = 8;
  for (const auto& file : scenario_files()) {
    const std::string name = file.stem().string();
    CAPTURE(name);
    const auto scenario = read_scenario(file);
    REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
    std::map<std::string, std::int64_t> reached;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      CAPTURE(seed);
      const Outcome outcome = run_scenario(*scenario, {seed, false});
      check_clean(outcome);
      for (const auto& [counter, count] : outcome.counters) {
        reached[counter] += count;
      }
    }
    for (const std::string& counter : scenario->reaches()) {
      CHECK_MESSAGE(reached[counter] > 0, name << " never reached " << counter);
    }
  }
}

TEST_CASE("drawn scenarios of one to five nodes hold their invariants") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    check_clean(run_scenario(drawn_scenario(seed, 1 + static_cast<int>(seed % 5)), {seed, false}));
  }
}

TEST_CASE("the same scenario and seed give the same hash, another seed another") {
  const scenario::Scenario scenario = drawn_scenario(11, 4);
  const std::uint64_t hash = run_scenario(scenario, {11, false}).hash;
  CHECK(run_scenario(scenario, {11, true}).hash == hash);
  CHECK(run_scenario(written_out(scenario, 11), {11, false}).hash == hash);
  CHECK(run_scenario(scenario, {12, false}).hash != hash);
}

TEST_CASE("a model's devices give the same hash under the same seed") {
  const auto scenario = read_scenario(SHOAL_SCENARIOS "/guppy_everything.txtpb").value();
  CHECK(run_scenario(scenario, {3, false}).hash == run_scenario(scenario, {3, false}).hash);
}

TEST_CASE("a scenario that names what does not exist is refused by name") {
  const auto error = [](const std::string& text) {
    const auto parsed = parse_scenario(text, "x.txtpb");
    REQUIRE_FALSE(parsed.has_value());
    return parsed.error().message;
  };
  CHECK(error("node: \"prefil\"").find("prefil") != std::string::npos);
  CHECK(error("nodes: \"all\"").find("x.txtpb:1") != std::string::npos);
  CHECK(error("node: \"all\" fault { kind: KILL node: 3 }").find("nodes 0 .. 0") !=
        std::string::npos);
  CHECK(error("node: \"all\" device { model: \"gupy\" }").find("known: guppy") !=
        std::string::npos);
  CHECK(error("node: \"all\" device { model: \"guppy\" eos_period: 9 }").find("eos_period") !=
        std::string::npos);
  CHECK(error("node: \"all\" reaches: \"node_kiled\"").find("node_killed") != std::string::npos);
}
