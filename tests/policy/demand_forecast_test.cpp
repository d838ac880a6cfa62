// Forecasts of demand that a person can check.
#include "actors/policy/demand_forecast.h"

#include <doctest/doctest.h>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

constexpr int kDay = 100;  // buckets

DemandForecast forecast(SeasonUse seasons = SeasonUse::kWhereNearer) {
  return DemandForecast({.horizon = 4, .day = kDay, .seasons = seasons});
}

// 100, and in a tenth of each day 300: within one bucket, as when a batch job starts.
double daily(int bucket) {
  return bucket % kDay >= 50 && bucket % kDay < 60 ? 300 : 100;
}

}  // namespace

TEST_CASE("steady demand is expected to stay") {
  DemandForecast f = forecast();
  CHECK(f.expected() == 0);
  for (int i = 0; i < 50; ++i) {
    f.observe(70);
  }
  CHECK(f.expected() == doctest::Approx(70));
  CHECK(f.margin_permille() == 0);
}

TEST_CASE("demand that rises is expected to have risen at the horizon, margin included") {
  DemandForecast f = forecast();
  for (int i = 0; i <= 60; ++i) {
    f.observe(100 + 10 * i);
  }
  CHECK(f.expected() > 720);
  CHECK(f.expected() < 740);
  CHECK(f.expected() * (1'000 + f.margin_permille()) / 1'000 > 740);
}

TEST_CASE("after a surprise the margin is wide, and narrow again when nothing surprises") {
  DemandForecast f = forecast();
  const auto run = [&f](double demand, int buckets) {
    for (int i = 0; i < buckets; ++i) {
      f.observe(demand);
    }
    return f.margin_permille();
  };
  run(100, 50);
  CHECK(run(140, 1) > 200);
  CHECK(run(140, 60) < 50);
  CHECK(run(0, 5) < 700);  // cut off: no more than its share
}

TEST_CASE("demand that falls is expected to be what it is: machines go when it has fallen") {
  DemandForecast f = forecast();
  for (int i = 0; i <= 60; ++i) {
    f.observe(1'000 - 10 * i);
  }
  CHECK(f.expected() == doctest::Approx(400).epsilon(0.05));
}

TEST_CASE("noise is smoothed") {
  Draw random(1);
  DemandForecast f = forecast();
  double least = 1e9, most = 0;
  for (int i = 0; i < 2'000; ++i) {
    f.observe(900 + 200 * random.unit());
    if (i > 1'000) {
      least = std::min(least, f.expected());
      most = std::max(most, f.expected());
    }
  }
  CHECK(least > 930);
  CHECK(most < 1'120);
  CHECK(f.margin_permille() > 60);
  CHECK(f.margin_permille() < 240);
}

TEST_CASE("what comes every day is expected before it comes") {
  DemandForecast f = forecast();
  int bucket = 0;
  for (; bucket < 3 * kDay + 47; ++bucket) {
    f.observe(daily(bucket));
  }
  CHECK(f.expected() > 170);  // 4 buckets ahead, smoothed over five
  CHECK(daily(bucket) == 100);
}

TEST_CASE("another day counts only where it was nearer than the trend, unless it always does") {
  DemandForecast ours = forecast();
  DemandForecast always = forecast(SeasonUse::kAlways);
  Draw random(2);
  for (int i = 0; i < 3 * kDay + 47; ++i) {
    // Jumps at another time each day: yesterday says nothing.
    const double demand = i % kDay / 10 == i / kDay * 2 ? 300 : 100;
    ours.observe(demand);
    always.observe(demand);
    REQUIRE(ours.expected() <= always.expected());
  }
}

TEST_CASE("holes and enormous demands stay numbers") {
  DemandForecast f = forecast();
  for (int i = 0; i < 3 * kDay; ++i) {
    f.observe(i % 7 == 0 ? 1e18 : 0);
    REQUIRE(f.expected() >= 0);
    REQUIRE(f.expected() < 1e20);
    REQUIRE(f.margin_permille() <= 1'000);
  }
}
