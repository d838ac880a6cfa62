// The shipped planner by hand.
#include "actors/policy/verify_plan.h"

#include <doctest/doctest.h>

#include "actors/policy/draw.h"
#include "tests/policy/drafted_requests.h"

using namespace shoal;
using namespace shoal::testing;

namespace {

std::unique_ptr<VerifyPlanner> shipped() {
  return verify_policies().front().make();
}

}  // namespace

TEST_CASE("drafts are verified as long as they yield more than they cost") {
  // A step of 2 requests takes 200 + 20 ns a token. Sure drafts: each costs 20 ns and yields one.
  // Drafts of 1/16: a token costs 240 / 2 = 120 ns without them, and 20 * 16 = 320 ns by them.
  const auto cheap = [](float confidence) {
    const std::vector<DraftHistogram> old{histogram({request(confidence), request(confidence)})};
    return shipped()->plan(old, costs(200, 20)).tokens[0];
  };
  CHECK(cheap(0.99F) == 12);
  CHECK(cheap(0.0625F) == 2);
  // 0.5: the first costs 40 ns a token where 120 is usual, and after it 0.25 costs 80 where 93 is,
  // and 0.125 costs 160.
  CHECK(cheap(0.49F) == 6);
}

TEST_CASE("ranks with fewer requests verify longer drafts in the time they would wait") {
  Draw random(3);
  const Requests many = drawn(40, random);
  const Requests few(many.begin(), many.begin() + 20);
  const std::vector<DraftHistogram> old{histogram(many), histogram(few)};
  const VerifyPlan plan = shipped()->plan(old, costs(2'000, 50));
  CHECK(plan.tokens[0] - 40 < old[0].requests * 3);
  CHECK((plan.tokens[1] - 20) * 2 > plan.tokens[0] - 40);
  CHECK(plan.tokens[1] <= plan.level);
}

TEST_CASE("without measured costs all drafts are verified, and the plan says why") {
  const std::vector<DraftHistogram> old{histogram({request(0.1F), request(0.9F)})};
  const VerifyPlan plan = shipped()->plan(old, {.fixed = Nanos{1'000}});
  CHECK(plan.reason == VerifyReason::kFlatCosts);
  CHECK(plan.tokens[0] == 12);
  CHECK(plan.expected > 2 * kCertain);
  CHECK(plan.time == Nanos{1'000});
  CHECK(shipped()->plan({}, costs(1, 1)).reason == VerifyReason::kNoRequests);
}

TEST_CASE("a late request has its full block, whatever drafts cost") {
  const Requests now{request(0.1F), request(0.1F, Nanos{-1}), request(0.1F)};
  const auto planner = shipped();
  const VerifyPlan plan = planner->plan(std::vector{histogram(now)}, costs(0, 1'000));
  CHECK(lengths(*planner, plan, now) == std::vector<std::uint8_t>{0, 5, 0});
}

TEST_CASE("a size is left only for half a percent") {
  const auto planner = shipped();
  const auto at = [&](std::int64_t token_ns) {
    Draw random(11);
    return planner->plan(std::vector{histogram(drawn(100, random))}, costs(10'000, token_ns, 16));
  };
  const VerifyPlan first = at(100);
  CHECK(first.reason == VerifyReason::kBest);
  const VerifyPlan near = at(104);
  CHECK(near.level == first.level);
  const VerifyPlan far = at(2'000);
  CHECK(far.reason == VerifyReason::kBest);
  CHECK(far.level < first.level);
}

TEST_CASE("a step is padded to the next measured size, and a fuller one costs more") {
  const StepTable table(4, {Nanos{0}, Nanos{10}, Nanos{8}, Nanos{30}});
  CHECK(table.at(4) == Nanos{10});
  CHECK(table.at(5) == Nanos{10});  // 8 was measured below what 4 took
  CHECK(table.padded(1) == 8);
  CHECK(table.at(9) == Nanos{30});
  CHECK(table.at(24) == Nanos{60});
}
