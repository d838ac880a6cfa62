// Published figures: each within its tolerance, or it says why not.
#include "actors/policy/fleet_validation.h"

#include <doctest/doctest.h>
#include <set>
#include <string>

#include "tests/policy/fleet_machines.h"

using namespace shoal;
using shoal::testing::node_gpu;
using shoal::testing::rack_gpu;

TEST_CASE("published figures are within their tolerance, all but one that is explained") {
  int off = 0;
  for (const PlanCheck& row : check_against_published(rack_gpu(), node_gpu())) {
    CAPTURE(std::string(row.quantity));
    CAPTURE(row.ours);
    CHECK(row.target > 0);
    CHECK_FALSE(row.why.empty());
    if (!row.good()) {
      ++off;
      CHECK(row.quantity == "2025: output of an H800 node");
      CHECK(row.ours == doctest::Approx(row.target).epsilon(0.25));
    }
  }
  CHECK(off <= 1);
}

TEST_CASE("each published figure is compared once, and what is left to simulation is named") {
  std::set<std::string_view> names;
  for (const PlanCheck& row : check_against_published(rack_gpu(), node_gpu())) {
    CHECK(names.insert(row.quantity).second);
  }
  CHECK(names.size() == 13);
  for (const std::string_view quantity : left_to_simulation()) {
    CHECK(names.insert(quantity).second);
  }
}

TEST_CASE("a limit is kept below, a target on both sides") {
  PlanCheck check{.target = 10, .ours = 9.2, .tolerance = 0.1};
  CHECK(check.good());
  check.ours = 11.1;
  CHECK_FALSE(check.good());
  check.at_most = true;
  CHECK_FALSE(check.good());
  check.ours = 3;
  CHECK(check.good());
  check.ours = 0;  // there was no plan
  CHECK_FALSE(check.good());
}

TEST_CASE("a machine on which there is no plan passes nothing that needs one") {
  PlanMachine tiny = rack_gpu();
  tiny.memory_bytes = 1e9;
  for (const PlanCheck& row : check_against_published(tiny, tiny)) {
    CAPTURE(std::string(row.quantity));
    const bool from_inputs =
        row.unit == "times as long" || row.unit == "PB" || row.quantity == "KV store, mean read";
    CHECK(row.good() == from_inputs);
  }
}
