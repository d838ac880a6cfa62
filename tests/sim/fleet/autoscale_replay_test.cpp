// What machines cost under recorded rates, and when they were too few.
#include "tests/sim/fleet/autoscale_replay.h"

#include <doctest/doctest.h>
#include <string>

using namespace shoal;
using namespace shoal::sim;

namespace {

const AutoscaleRow& row(std::string_view name) {
  for (const AutoscaleRow& r : autoscale_policies()) {
    if (r.name == name) {
      return r;
    }
  }
  FAIL("no such policy");
  return autoscale_policies().front();
}

std::vector<ServiceRates> two_days() {
  auto rates = read_rates(std::string(SHOAL_TRACES) + "/rates-2d.csv.gz");
  REQUIRE_MESSAGE(rates.has_value(), rates.error().message);
  return *std::move(rates);
}

AutoscaleFigures sum(std::string_view name) {
  AutoscaleFigures all;
  for (const ServiceRates& service : two_days()) {
    const AutoscaleFigures one = replay_autoscale(row(name), service, {});
    all.unit_hours += one.unit_hours;
    all.equal_hours += one.equal_hours;
    all.violating += one.violating;
  }
  return all;
}

}  // namespace

TEST_CASE("a rate that never changes costs what it needs") {
  const ServiceRates steady{.name = "steady", .per_s = std::vector<double>(24, 50'000)};
  AutoscaleLoad load;
  load.peak_units = 10;
  for (const AutoscaleRow& r : autoscale_policies()) {
    CAPTURE(r.name);
    const AutoscaleFigures figures = replay_autoscale(r, steady, load);
    CHECK(figures.oracle_hours == doctest::Approx(40));
    CHECK(figures.unit_hours == doctest::Approx(40).epsilon(0.01));
    CHECK(figures.violating == 0);
  }
}

TEST_CASE("a unit costs from when it is asked for and helps when it is up") {
  // From 0 to 100 requests a second within ten minutes, and no further.
  ServiceRates rising{.name = "rising", .per_s = std::vector<double>(12, 10'000)};
  rising.per_s.resize(24, 100'000);
  AutoscaleLoad fast;
  fast.timing.provisioning = std::chrono::minutes(1);
  AutoscaleLoad slow;
  slow.timing.provisioning = std::chrono::minutes(30);
  CHECK(replay_autoscale(row("ours"), rising, fast).violating <
        replay_autoscale(row("ours"), rising, slow).violating);
}

TEST_CASE("an oracle with the same delay pays it, one that may be too few as often spares that") {
  ServiceRates rising{.name = "rising", .per_s = std::vector<double>(12, 10'000)};
  rising.per_s.resize(24, 100'000);
  const AutoscaleLoad load{.peak_units = 10};
  const AutoscaleFigures figures = replay_autoscale(row("reactive"), rising, load);
  // Nine units more, each three minutes before it is needed.
  CHECK(figures.delayed_hours == doctest::Approx(figures.oracle_hours + 9 * 3 / 60.0));
  const double too_few = figures.violating * 4;  // of the four hours
  REQUIRE(too_few > 0);
  CHECK(figures.equal_hours == doctest::Approx(figures.oracle_hours - 10 * too_few));
}

TEST_CASE("of recorded rates machines cost hardly more than of an oracle too few as often") {
  const AutoscaleFigures ours = sum("ours");
  const AutoscaleFigures reactive = sum("reactive");
  CHECK(ours.unit_hours < 1.05 * ours.equal_hours);
  CHECK(ours.violating < 0.5 * reactive.violating);
  CHECK(sum("static").unit_hours > 1.5 * ours.unit_hours);
}

TEST_CASE("no requests at all cost the least that a role may have") {
  const ServiceRates none{.name = "none", .per_s = std::vector<double>(6, 0)};
  CHECK(replay_autoscale(row("ours"), none, {}).unit_hours == doctest::Approx(1));
}

TEST_CASE("the same seed costs the same") {
  const ServiceRates service = two_days().back();
  CHECK(replay_autoscale(row("ours"), service, {.seed = 3}).unit_hours ==
        replay_autoscale(row("ours"), service, {.seed = 3}).unit_hours);
}
