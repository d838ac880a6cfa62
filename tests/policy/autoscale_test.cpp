// Each way of scaling on the same hard inputs, and the shipped one by hand.
#include "actors/policy/autoscale.h"

#include <doctest/doctest.h>
#include <limits>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

// A unit of 8 ranks does 8e9 ns a second, at the target 6e9.
constexpr std::int64_t kUnit = 6'000'000'000;

PoolShape shape(std::uint32_t hardware = 0) {
  return {.most = 100, .hardware = hardware};
}

std::unique_ptr<Autoscaler> shipped(const std::vector<PoolShape>& shapes, ScaleTiming timing = {}) {
  return autoscale_policies().front().make(timing, shapes);
}

// One pool whose units follow at once what is decided.
struct Pool {
  std::unique_ptr<Autoscaler> scaler = shipped({shape()});
  std::int64_t units = 1;
  ScaleDecision last{};

  void run(std::int64_t demand, int buckets) {
    for (int i = 0; i < buckets; ++i) {
      const PoolLoad load{demand, units};
      last = scaler->plan({&load, 1}).pools[0];
      units = last.units;
    }
  }
};

}  // namespace

TEST_CASE("every policy stays within the bounds, whatever the demand") {
  for (const AutoscaleRow& row : autoscale_policies()) {
    CAPTURE(row.name);
    const std::vector<PoolShape> shapes{
        {.least = 2, .most = 9},
        {.ranks = 0, .target_permille = 0, .limit_permille = 0, .least = 3, .most = 1},
        {.least = 0, .most = 0}};
    const auto scaler = row.make({}, shapes);
    Draw random(5);
    for (int i = 0; i < 300; ++i) {
      const std::int64_t demand = i % 3 == 0   ? 0
                                  : i % 3 == 1 ? std::numeric_limits<std::int64_t>::max()
                                               : -static_cast<std::int64_t>(random.below(1u << 31));
      const std::vector<PoolLoad> loads{{demand, 2}, {demand, 3}, {demand, 0}};
      const ScalePlan plan = scaler->plan(loads);
      REQUIRE(plan.pools.size() == 3);
      REQUIRE(plan.pools[0].units >= 2);
      REQUIRE(plan.pools[0].units <= 9);
      REQUIRE(plan.pools[2].units == 0);
    }
    CHECK(row.make({}, {})->plan({}).pools.empty());
  }
}

TEST_CASE("every policy decides the same again") {
  for (const AutoscaleRow& row : autoscale_policies()) {
    CAPTURE(row.name);
    const std::vector<PoolShape> shapes{shape()};
    const auto one = row.make({}, shapes);
    const auto other = row.make({}, shapes);
    Draw random(6);
    std::int64_t units = 5;
    for (int i = 0; i < 300; ++i) {
      const PoolLoad load{static_cast<std::int64_t>(random.below(1u << 31)) * 100, units};
      const std::int64_t next = one->plan({&load, 1}).pools[0].units;
      REQUIRE(other->plan({&load, 1}).pools[0].units == next);
      units = next;
    }
  }
}

TEST_CASE("units are as many as the demand needs at the target, whole ones") {
  CHECK(units_for(0, 750, shape()) == 1);
  CHECK(units_for(kUnit, 750, shape()) == 1);
  CHECK(units_for(kUnit + 1, 750, shape()) == 2);
  CHECK(units_for(10.0 * kUnit, 750, {.most = 100, .spares = 2}) == 12);
  CHECK(units_for(1e300, 750, shape()) == 100);
}

TEST_CASE("units come at once and go when fewer were enough for five minutes") {
  Pool pool;
  pool.run(10 * kUnit, 1);
  CHECK(pool.units == 10);
  CHECK(pool.last.reason == ScaleReason::kGrows);
  pool.run(10 * kUnit, 30);
  CHECK(pool.units == 10);
  CHECK(pool.last.reason == ScaleReason::kEnough);
  pool.run(78 * kUnit / 10, 4);
  CHECK(pool.units == 10);
  CHECK(pool.last.reason == ScaleReason::kHeld);
  pool.run(78 * kUnit / 10, 20);
  CHECK(pool.units == 8);
}

TEST_CASE("rising demand finds units that were asked for before it came") {
  Pool pool;
  for (int minute = 0; minute < 60; ++minute) {
    pool.run((100 + minute * 10) * kUnit / 100, 1);
  }
  // 6.9 units' worth now, 7.3 in four minutes.
  CHECK(pool.units == 8);
}

TEST_CASE("demand that is cut off finds all units when it comes back") {
  Pool pool;
  pool.run(20 * kUnit, 30);
  pool.run(0, 60);
  CHECK(pool.units == 20);
  CHECK(pool.last.reason == ScaleReason::kHeld);
  pool.run(20 * kUnit, 10);
  pool.run(0, 180);  // longer than outages are
  CHECK(pool.units == 1);
}

TEST_CASE("a role that may not have more says so") {
  Pool pool;
  pool.run(1'000 * kUnit, 3);
  CHECK(pool.units == 100);
  CHECK(pool.last.reason == ScaleReason::kAtMost);
}

TEST_CASE("units that one role does not need go to another on the same hardware") {
  const auto plan_of = [](std::uint32_t other_hardware) {
    const auto scaler = shipped({shape(1), shape(other_hardware)});
    ScalePlan plan;
    for (int i = 0; i < 3; ++i) {  // the hold has not passed
      plan = scaler->plan(std::vector<PoolLoad>{{5 * kUnit, 3}, {2 * kUnit, 6}});
    }
    return plan;
  };
  const ScalePlan same = plan_of(1);
  REQUIRE(same.flips.size() == 1);
  CHECK(same.flips[0].from == 1);
  CHECK(same.flips[0].to == 0);
  CHECK(same.flips[0].units == 2);
  CHECK(same.pools[0].units == 5);
  CHECK(same.pools[1].units == 4);
  CHECK(plan_of(2).flips.empty());
  CHECK(plan_of(0).flips.empty());
}

TEST_CASE("the reactive policy tolerates a tenth, the static one has the most") {
  for (const AutoscaleRow& row : autoscale_policies()) {
    const std::vector<PoolShape> shapes{shape()};
    const PoolLoad load{105 * kUnit / 10, 10};
    const std::int64_t units = row.make({}, shapes)->plan({&load, 1}).pools[0].units;
    if (row.name == "reactive") {
      CHECK(units == 10);
    } else if (row.name == "static") {
      CHECK(units == 100);
    } else {
      CHECK(units == 11);
    }
  }
}
