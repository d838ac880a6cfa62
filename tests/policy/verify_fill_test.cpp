// What a rank's worker makes of sizes and of what the head says.
#include "actors/policy/verify_fill.h"

#include <cmath>
#include <doctest/doctest.h>
#include <numeric>

#include "tests/policy/drafted_requests.h"

using namespace shoal;
using namespace shoal::testing;

TEST_CASE("temperatures make chances of what the head says") {
  DraftedRequest drafts = request(0.9F);
  drafts.slack = Nanos{-3};
  drafts.drafts = 4;
  const DraftedRequest request = calibrated(drafts, {16, 8, 32, 16, 16});
  CHECK(request.confidence[0] == doctest::Approx(0.9F));
  CHECK(request.confidence[1] == doctest::Approx(0.75F));      // the root of odds of 9
  CHECK(request.confidence[2] == doctest::Approx(81.0 / 82));  // their square
  CHECK(request.slack == Nanos{-3});
  CHECK(request.drafts == 4);
}

TEST_CASE("the likeliest drafts of now fill what was planned for others") {
  const VerifyRow& row = verify_policies().front();
  const Requests before{request(0.9F), request(0.9F)};
  const VerifyPlan plan =
      row.make()->plan(std::vector{histogram({}), histogram(before)}, costs(200, 20));
  REQUIRE(plan.tokens[1] == 12);
  VerifyFill fill(row);
  const std::vector now{request(0.2F), request(0.9F), request(0.1F), request(0.8F)};
  std::vector<std::uint8_t> lengths(now.size());
  fill.lengths(plan, 1, now, kUntempered, lengths);
  CHECK(lengths == std::vector<std::uint8_t>{0, 5, 0, 3});
  // Most have left: there is room for all drafts.
  fill.lengths(plan, 1, std::span(now).first(1), kUntempered, std::span(lengths).first(1));
  CHECK(lengths[0] == 5);
}

TEST_CASE("what one planner planned, the fill of another process fills, by any row") {
  Draw random(4);
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    const Requests now = drawn(40, random);
    const auto planner = row.make();
    const VerifyPlan plan = planner->plan(std::vector{histogram(now)}, costs(3'000, 30));
    std::vector<std::uint8_t> filled(now.size());
    VerifyFill(row).lengths(plan, 0, now, kUntempered, filled);
    const auto sum = [](const std::vector<std::uint8_t>& lengths) {
      return std::accumulate(lengths.begin(), lengths.end(), 0);
    };
    CHECK(std::abs(sum(filled) - sum(lengths(*planner, plan, now))) <= 1);  // at most one rounded
  }
}
