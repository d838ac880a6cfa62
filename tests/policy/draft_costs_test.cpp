// What rows and drafts cost, found from steps of both kinds.
#include "actors/policy/draft_costs.h"

#include <doctest/doctest.h>
#include <vector>

using namespace shoal;

namespace {

constexpr DraftCostTerms kTrue{.step = 8e6, .row = 2e5, .pass = 3e6, .sequence = 5e4};

RankDrafts step(std::int64_t requests, std::int64_t drafts, bool makes_drafts, double slower = 1) {
  const std::int64_t drafted = makes_drafts ? requests : 0;
  const double time = kTrue.step + kTrue.row * static_cast<double>(requests + drafts) +
                      kTrue.sequence * static_cast<double>(drafted) +
                      (makes_drafts ? kTrue.pass : 0);
  return {.made = {},
          .requests = requests,
          .rows = requests + drafts,
          .drafted = drafted,
          .compute = Nanos{static_cast<std::int64_t>(time * slower)},
          .outcomes = {}};
}

double alone(const DraftCosts& costs, double rows, double drafted) {
  const RankLoad load{.rows = rows, .drafted = drafted};
  return costs.step({&load, 1});
}

// Steps without drafts, then with, and one without now and then.
DraftCosts taught() {
  DraftCosts costs({.step = 1e6, .row = 1e5, .pass = 1e5, .sequence = 1e4});
  for (int i = 0; i < 200; ++i) {
    const bool makes = i >= 8 && i % 20 != 0;
    const bool verifies = i >= 9 && i % 20 != 1;
    costs.add(std::vector{step(10, verifies ? 30 + i % 3 : 0, makes)});
  }
  return costs;
}

}  // namespace

TEST_CASE("steps with drafts and without tell rows from drafts at one batch size") {
  const DraftCosts costs = taught();
  CHECK(costs.terms().row == doctest::Approx(kTrue.row).epsilon(0.02));
  CHECK(costs.terms().step == doctest::Approx(kTrue.step).epsilon(0.02));
  const double drafts = costs.terms().pass + 10 * costs.terms().sequence;
  CHECK(drafts == doctest::Approx(kTrue.pass + 10 * kTrue.sequence).epsilon(0.02));
  CHECK(costs.error_ppm() < 20'000);
}

TEST_CASE("what rows that drafts see cost on top is told by steps whose rows they do not see") {
  DraftCosts costs({.step = 1e6, .row = 1e5, .feed = 5e3, .pass = 1e5, .sequence = 1e4});
  constexpr double kFeed = 3e4;
  for (int i = 0; i < 400; ++i) {
    RankDrafts ran = step(10, i % 40 == 7 || i % 40 == 8 ? 30 : 0, i % 40 == 6 || i % 40 == 7);
    ran.feeds = i % 40 < 10;
    ran.compute += Nanos{ran.feeds ? static_cast<std::int64_t>(kFeed) * ran.rows : 0};
    costs.add(std::vector{ran});
  }
  CHECK(costs.terms().feed == doctest::Approx(kFeed).epsilon(0.05));
  CHECK(costs.terms().row == doctest::Approx(kTrue.row).epsilon(0.05));
}

TEST_CASE("a planner is told the draft pass and what rows add") {
  const DraftCosts costs = taught();
  const VerifyCosts told = costs.verify(std::vector<std::int64_t>{10, 4});
  const double without_drafts = told.step(10, 14).count();
  CHECK(without_drafts == doctest::Approx(alone(costs, 10, 10)).epsilon(0.001));
  CHECK((told.step(60, 84) - told.step(10, 14)).count() ==
        doctest::Approx(50 * kTrue.row).epsilon(0.02));
}

TEST_CASE("rows are cheap for others up to the time of a slower rank") {
  DraftCosts costs = taught();
  for (int i = 0; i < 200; ++i) {
    costs.add(std::vector{step(10, 30 + i % 3, true), step(2, 6 + i % 3, true, 10)});
  }
  const VerifyCosts told = costs.verify(std::vector<std::int64_t>{10, 2});
  CHECK(told.step(12, 14) > Nanos{100'000'000});  // of the slow rank, whose drafts all fit
  CHECK(told.step(60, 62) == told.step(12, 14));
}

TEST_CASE("ranks without requests, and steps of no sense, teach nothing") {
  DraftCosts costs = taught();
  const double before = alone(costs, 10, 10);
  costs.add({});
  costs.add(std::vector<RankDrafts>(3));
  costs.add(std::vector{RankDrafts{.made = {}, .requests = 4, .rows = 2, .compute = Nanos{5}}});
  costs.add(std::vector{RankDrafts{.made = {}, .requests = 4, .rows = 4, .drafted = -1}});
  CHECK(alone(costs, 10, 10) == before);
  CHECK(costs.verify({}).step(0, 0) > Nanos{0});
}

TEST_CASE("stalls hardly move what drafts cost") {
  DraftCosts costs = taught();
  for (int i = 0; i < 400; ++i) {
    RankDrafts drafts = step(10, 30 + i % 3, i % 20 != 0);
    drafts.compute *= i % 50 == 7 ? 30 : 1;
    costs.add(std::vector{drafts});
  }
  CHECK(alone(costs, 40, 10) ==
        doctest::Approx(kTrue.step + 40 * kTrue.row + kTrue.pass + 10 * kTrue.sequence)
            .epsilon(0.03));
}
