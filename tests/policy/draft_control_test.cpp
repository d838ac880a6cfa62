// Groups of known costs and chances under the control that has to find both out.
#include "actors/policy/draft_control.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <functional>

#include "actors/policy/rows.h"
#include "tests/policy/draft_group.h"

using namespace shoal;
using namespace shoal::testing;

namespace {

constexpr int kSettles = 600;

const VerifyRow& shipped() {
  return verify_policies().front();
}

GroupLoad load_of(std::int64_t requests, double variable, double pass) {
  return {.requests = {requests}, .costs = costs_of(requests, variable, pass)};
}

struct Rates {
  double live = 0;  // once it has settled
  double knowing = 0;
  double none = 0;

  double of_best() const { return live / std::max(knowing, none); }
};

// Tokens a ms.
Rates measure(const GroupLoad& load, std::uint64_t seed, int steps = 500) {
  DraftGroup group(load, seed);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  DraftGroup other(load, seed);
  return {.live = run_group(group, shipped(), steps, std::ref(live)),
          .knowing = run_group(other, shipped(), steps, knowing(shipped(), load)),
          .none = rate_without_drafts(load)};
}

// Share of a group's next steps that make drafts.
double drafted(LiveGroup& live, DraftGroup& group, int steps) {
  const std::size_t begin = live.plans.size();
  run_group(group, shipped(), steps, std::ref(live));
  const auto made = std::count_if(live.plans.begin() + static_cast<std::ptrdiff_t>(begin),
                                  live.plans.end(),
                                  [](const DraftPlan& plan) { return plan.makes_drafts; });
  return static_cast<double>(made) / static_cast<double>(live.plans.size() - begin);
}

bool same(const DraftPlan& a, const DraftPlan& b) {
  return a.makes_drafts == b.makes_drafts && a.verifies == b.verifies && a.reason == b.reason &&
         a.sizes.tokens == b.sizes.tokens && a.sizes.most_drafts == b.sizes.most_drafts;
}

}  // namespace

TEST_CASE("drafts that cost too little to be told from noise are made") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    GroupLoad load = load_of(1, 0.03, 0.002);
    load.noise = 0.1;
    DraftGroup group(load, seed);
    LiveGroup live{DraftControl(&shipped())};
    run_group(group, shipped(), kSettles, std::ref(live));
    CHECK(drafted(live, group, 100) > 0.9);
  }
}

TEST_CASE("a group gives within two percent of what it would by known costs, with drafts or not") {
  for (const double variable : {0.25, 0.5, 1.0, 2.0}) {
    for (const double pass : {0.05, 2.5}) {
      double sum = 0;
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        sum += measure(load_of(16, variable, pass), seed).of_best() / 5;
      }
      CAPTURE(variable);
      CAPTURE(pass);
      MESSAGE("seeds 1 to 5, variable ", variable, ", pass ", pass, ": ", sum);
      CHECK(sum > 0.98);
    }
  }
}

TEST_CASE("noise and stalls do not change what pays") {
  for (const double pass : {0.3, 2.5}) {
    GroupLoad load = load_of(16, 1, pass);
    load.noise = 0.1;
    load.stalls = 0.02;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(pass);
      CAPTURE(seed);
      CHECK(measure(load, seed).of_best() > 0.97);
    }
  }
}

TEST_CASE("a lone request is never clearly slower than without drafts") {
  for (const double pass : {0.3, 1.5, 3.0}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Rates rates = measure(load_of(1, 1, pass), seed, 2'000);
      CAPTURE(pass);
      CAPTURE(seed);
      CHECK(rates.live > 0.98 * rates.none);
    }
  }
}

TEST_CASE("while drafts do not pay, looking whether they would costs less than a percent") {
  const GroupLoad load = load_of(16, 2, 2.5);
  DraftGroup group(load, 7);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  CHECK(run_group(group, shipped(), 5'000, std::ref(live)) > 0.99 * rate_without_drafts(load));
  const auto probes =
      std::count_if(live.plans.begin() + kSettles, live.plans.end(), [](const DraftPlan& plan) {
        return plan.reason == DraftReason::kProbe;
      });
  CHECK(probes > 10);
}

TEST_CASE(
    "while drafts do not pay, rows are shown to them only before a probe, and then a window") {
  GroupLoad load = load_of(16, 2, 2.5);
  load.costs.feed = load.costs.row / 4;
  load.window = 128;
  DraftGroup group(load, 19);
  LiveGroup live{DraftControl(&shipped(), {.window = load.window})};
  run_group(group, shipped(), kSettles, std::ref(live));
  CHECK(run_group(group, shipped(), 20'000, std::ref(live)) > 0.99 * rate_without_drafts(load));
  int shown = 0;
  int probes = 0;
  for (const DraftPlan& plan : live.plans) {
    shown = plan.feeds ? shown + 1 : 0;
    REQUIRE((plan.feeds || !plan.makes_drafts));
    if (plan.reason == DraftReason::kProbe) {
      ++probes;
      REQUIRE(shown > load.window);
    }
  }
  CHECK(probes > 10);
  CHECK(live.control.figures().costs.feed == doctest::Approx(load.costs.feed).epsilon(0.1));
}

TEST_CASE("drafts that begin to pay are found behind a window that was not shown") {
  GroupLoad load = load_of(16, 1, 0.8);
  load.costs.feed = load.costs.row / 20;
  load.window = 128;
  load.survival = 0.3;
  DraftGroup group(load, 20);
  LiveGroup live{DraftControl(&shipped(), {.window = load.window})};
  run_group(group, shipped(), kSettles, std::ref(live));
  CHECK(drafted(live, group, 400) < 0.1);
  group.load().survival = 1;
  run_group(group, shipped(), 8'000, std::ref(live));
  CHECK(drafted(live, group, 400) > 0.9);
}

TEST_CASE("drafts stop when there are so many requests that they lose, and begin again with few") {
  // A row of 64 costs what two drafts of one do, and what a draft costs more than it yields.
  GroupLoad load{.requests = {4},
                 .costs = {.step = 10e6, .row = 1.2e6, .pass = 1e6, .sequence = 0.6e6}};
  DraftGroup group(load, 3);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  for (int i = 0; i < 2; ++i) {
    CHECK(drafted(live, group, 200) > 0.9);
    group.load().requests = {64};
    group.resize();
    run_group(group, shipped(), 200, std::ref(live));
    CHECK(drafted(live, group, 400) < 0.1);
    group.load().requests = {4};
    group.resize();
    run_group(group, shipped(), 400, std::ref(live));
  }
}

TEST_CASE("drafts begin when the head gets better") {
  GroupLoad load = load_of(16, 1, 0.8);
  load.survival = 0.3;
  DraftGroup group(load, 4);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  CHECK(drafted(live, group, 400) < 0.1);
  group.load().survival = 1;
  run_group(group, shipped(), 4'000, std::ref(live));
  CHECK(drafted(live, group, 400) > 0.9);
}

TEST_CASE("a rank that is ten times slower sets the pace, and the others verify in its time") {
  GroupLoad load{.requests = {32, 32, 32, 32}, .slower = {1, 1, 10, 1}};
  load.costs = costs_of(32, 1, 0.3);
  GroupLoad known = load;  // whose planner looks at the fullest rank: the slow one is as full
  known.slower = {10, 10, 10, 10};
  DraftGroup group(load, 5);
  DraftGroup other(known, 5);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  const double rate = run_group(group, shipped(), 400, std::ref(live));
  CHECK(rate > 0.98 * run_group(other, shipped(), 400, knowing(shipped(), known)));

  group.load().requests = {32, 32, 4, 32};
  group.resize();
  run_group(group, shipped(), kSettles, std::ref(live));
  const double uneven = run_group(group, shipped(), 400, std::ref(live));
  CHECK(uneven > rate_without_drafts(group.load()));
  const auto& plan = *std::find_if(live.plans.rbegin(), live.plans.rend(), [](const DraftPlan& p) {
    return p.verifies && p.makes_drafts;
  });
  CHECK(plan.sizes.tokens[0] > 150);  // of 192
}

TEST_CASE("a head that is too sure or too shy is corrected") {
  for (const double head : {2.0, 0.5}) {
    GroupLoad load = load_of(32, 1, 0.05);
    load.head = head;
    DraftGroup group(load, 6);
    LiveGroup live{DraftControl(&shipped())};
    run_group(group, shipped(), kSettles, std::ref(live));
    const double rate = run_group(group, shipped(), 800, std::ref(live));
    CAPTURE(head);
    const double sixteenths = 16 / head;
    CHECK(live.control.temperatures()[0] > 0.8 * sixteenths);
    CHECK(live.control.temperatures()[0] < 1.25 * sixteenths);
    const DraftFigures figures = live.control.figures();
    CHECK(figures.error_tempered < 0.5 * figures.error_as_said);
    load.head = 1;
    DraftGroup other(load, 6);
    CHECK(rate > 0.98 * run_group(other, shipped(), 800, knowing(shipped(), load)));
  }
}

TEST_CASE("what is expected of a corrected head is what comes") {
  GroupLoad load = load_of(32, 1, 0.05);
  load.head = 2;
  DraftGroup group(load, 8);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), 3 * kSettles, std::ref(live));
  const double rate = run_group(group, shipped(), 800, std::ref(live));
  const DraftFigures figures = live.control.figures();
  const double gain = rate / rate_without_drafts(load);
  CHECK(figures.true_gain == doctest::Approx(gain).epsilon(0.05));
  CHECK(figures.expected_gain == doctest::Approx(gain).epsilon(0.05));
  CHECK(figures.costs.row == doctest::Approx(load.costs.row).epsilon(0.05));
  CHECK(figures.costs.step == doctest::Approx(load.costs.step).epsilon(0.05));
  CHECK(figures.drafted > figures.steps * 9 / 10);
}

TEST_CASE(
    "the first steps are without drafts, then some are with, and both are looked at for ever") {
  DraftGroup group(load_of(8, 0.5, 0.05), 9);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  CHECK(live.plans[0].reason == DraftReason::kFirst);
  CHECK_FALSE(live.plans[0].verifies);
  const auto is = [](DraftReason reason) {
    return [reason](const DraftPlan& plan) { return plan.reason == reason; };
  };
  const auto trial = std::find_if(live.plans.begin(), live.plans.end(), is(DraftReason::kTrial));
  CHECK(trial - live.plans.begin() < 10);
  CHECK(std::count_if(live.plans.begin(), live.plans.end(), is(DraftReason::kWithout)) >= 4);
}

TEST_CASE("drafts are verified in the step behind which they were made, and only there") {
  DraftGroup group(load_of(8, 1, 0.5), 10);
  LiveGroup live{DraftControl(&shipped())};
  run_group(group, shipped(), kSettles, std::ref(live));
  for (std::size_t i = 1; i < live.plans.size(); ++i) {
    REQUIRE(live.plans[i].verifies == live.plans[i - 1].makes_drafts);
    if (!live.plans[i].verifies) {
      REQUIRE(live.plans[i].sizes.tokens == std::vector<std::int64_t>{8});
    }
  }
}

TEST_CASE("sizes do not depend on confidences of the drafts that they are for") {
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    DraftGroup group(load_of(8, 1, 0.05), 11);
    DraftControl one(&row);
    DraftControl other(&row);
    VerifyFill fill(row);
    for (int i = 0; i < 300; ++i) {
      const DraftPlan plan = one.plan(group.load().requests);
      // The drafts of this plan are those of the step added last, of which the other was told lies.
      REQUIRE(same(other.plan(group.load().requests), plan));
      auto ranks = group.step(plan, fill, one.temperatures());
      one.add(ranks);
      if (i == 299) {
        ranks[0].made = {};
        for (int k = 0; k < 8; ++k) {
          ranks[0].made.add({.confidence = {0.01F, 0.01F, 0.01F, 0.01F, 0.01F}});
        }
      }
      other.add(ranks);
    }
    CHECK(same(other.plan(group.load().requests), one.plan(group.load().requests)));
  }
}

TEST_CASE("steps that overlap are sized by the last that is over, and others as well do") {
  for (const bool overlaps : {true, false}) {
    DraftGroup group(load_of(16, 1, 0.05), 12);
    LiveGroup live{.control = DraftControl(&shipped()), .overlaps = overlaps};
    run_group(group, shipped(), kSettles, std::ref(live));
    const double rate = run_group(group, shipped(), 800, std::ref(live));
    DraftGroup other(load_of(16, 1, 0.05), 12);
    CHECK(rate > 0.98 * run_group(other, shipped(), 800, knowing(shipped(), other.load())));
  }
}

TEST_CASE("every row can be chosen: none never drafts, five always, others where it pays") {
  const auto share = [](const VerifyRow& row, double pass) {
    DraftGroup group(load_of(16, 2, pass), 13);
    LiveGroup live{DraftControl(&row)};
    run_group(group, row, kSettles, std::ref(live));
    for (const DraftPlan& plan : live.plans) {
      REQUIRE(plan.sizes.tokens[0] <= 16 * 6);
    }
    const std::size_t begin = live.plans.size();
    run_group(group, row, 300, std::ref(live));
    return static_cast<double>(
               std::count_if(live.plans.begin() + static_cast<std::ptrdiff_t>(begin),
                             live.plans.end(),
                             [](const DraftPlan& plan) { return plan.makes_drafts; })) /
           static_cast<double>(live.plans.size() - begin);
  };
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    CHECK(share(row, 0.05) > 0.9);
    CHECK((share(row, 4) > 0.9) == row.always);
  }
  CHECK(find_row(verify_policies(), "fixed5")->always);
  DraftControl none(nullptr);
  const DraftPlan plan = none.plan(std::vector<std::int64_t>{3, 4});
  CHECK(plan.reason == DraftReason::kNever);
  CHECK_FALSE(plan.makes_drafts);
  CHECK(plan.sizes.tokens == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("five drafts for each are five drafts for each") {
  DraftGroup group(load_of(16, 2, 0.5), 14);
  const VerifyRow& row = *find_row(verify_policies(), "fixed5");
  LiveGroup live{DraftControl(&row)};
  run_group(group, row, 100, std::ref(live));
  CHECK_FALSE(live.plans[0].verifies);
  for (std::size_t i = 1; i < live.plans.size(); ++i) {
    REQUIRE(live.plans[i].reason == DraftReason::kAlways);
    REQUIRE(live.plans[i].verifies);
    REQUIRE(live.plans[i].sizes.most_drafts == 5);
  }
}

TEST_CASE("a group without requests plans nothing and goes on when some come") {
  for (const VerifyRow& row : verify_policies()) {
    DraftControl control(&row);
    CHECK(control.plan({}).sizes.tokens.empty());
    control.add({});
    const DraftPlan idle = control.plan(std::vector<std::int64_t>{0, 0});
    CHECK(idle.reason == DraftReason::kNoRequests);
    CHECK_FALSE(idle.makes_drafts);
    CHECK(idle.sizes.tokens == std::vector<std::int64_t>{0, 0});
    control.add(std::vector<RankDrafts>(2));
    DraftGroup group({.requests = {0, 8, 0}, .costs = costs_of(8, 1, 0.05)}, 15);
    LiveGroup live{std::move(control)};
    run_group(group, row, 500, std::ref(live));
    CHECK(live.plans.back().makes_drafts);
  }
}

TEST_CASE("requests come and go between the plan of a step and the step before") {
  std::mt19937_64 random(16);
  GroupLoad load{.requests = {8, 8, 8}, .costs = costs_of(8, 1, 0.05)};
  DraftGroup group(load, 16);
  LiveGroup live{DraftControl(&shipped())};
  VerifyFill fill(shipped());
  for (int i = 0; i < 1'000; ++i) {
    for (std::int64_t& requests : group.load().requests) {
      requests = static_cast<std::int64_t>(random() % 17);
    }
    live(group, fill);  // which steps with those of before
    const DraftPlan& plan = live.plans.back();
    for (std::size_t r = 0; r < 3; ++r) {
      REQUIRE(plan.sizes.tokens[r] >= group.load().requests[r]);
      REQUIRE(plan.sizes.tokens[r] <= 6 * group.load().requests[r]);
    }
    group.resize();
  }
  CHECK(live.control.figures().true_gain > 1.2);
}

TEST_CASE("a step that is dropped is missed by nobody") {
  DraftGroup group(load_of(8, 1, 0.05), 17);
  DraftControl control(&shipped());
  VerifyFill fill(shipped());
  for (int i = 0; i < 500; ++i) {
    const DraftPlan plan = control.plan(group.load().requests);
    const auto ranks = group.step(plan, fill, control.temperatures());
    if (i % 5 == 0) {
      control.drop();
    } else {
      control.add(ranks);
    }
  }
  CHECK(control.figures().steps == 400);
  CHECK(control.plan(group.load().requests).makes_drafts);
}

TEST_CASE("the same steps give the same plans") {
  const auto plans = [] {
    GroupLoad load = load_of(8, 1, 0.8);
    load.noise = 0.05;
    DraftGroup group(load, 18);
    LiveGroup live{DraftControl(&shipped())};
    run_group(group, shipped(), kSettles, std::ref(live));
    return live.plans;
  };
  const auto once = plans();
  const auto again = plans();
  REQUIRE(once.size() == again.size());
  CHECK(std::equal(once.begin(), once.end(), again.begin(), same));
}
