// What is counted and remembered of drafts.
#include "actors/policy/draft_outcomes.h"

#include <doctest/doctest.h>
#include <limits>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;
using std::chrono::milliseconds;

namespace {

VerifyOutcome outcome(Draw& random, int temperature) {
  VerifyOutcome result{.confidence = {}, .verified = kMostDrafts};
  bool accepts = true;
  for (float& confidence : result.confidence) {
    const double chance = 0.3 + 0.69 * random.unit();
    confidence = tempered(static_cast<float>(chance), temperature);
    accepts = accepts && random.unit() < chance;
    result.accepted += accepts ? 1 : 0;
  }
  return result;
}

std::vector<RankDrafts> step(Draw& random, int outcomes, int temperature = 32) {
  std::vector<RankDrafts> ranks(2);
  for (int i = 0; i < outcomes; ++i) {
    ranks[static_cast<std::size_t>(i % 2)].outcomes.push_back(outcome(random, temperature));
  }
  ranks[0].compute = milliseconds(20);
  return ranks;
}

}  // namespace

TEST_CASE("acceptance is counted by place") {
  DraftOutcomes outcomes;
  std::vector<RankDrafts> ranks(1);
  ranks[0].outcomes = {{.confidence = {}, .verified = 3, .accepted = 1},
                       {.confidence = {}, .verified = 1, .accepted = 1},
                       {.confidence = {}, .verified = 5, .accepted = 5},
                       {.confidence = {}, .verified = 0, .accepted = 0}};
  outcomes.add(ranks);
  CHECK(outcomes.verified() == std::array<std::int64_t, 5>{3, 2, 2, 1, 1});
  CHECK(outcomes.accepted() == std::array<std::int64_t, 5>{3, 1, 1, 1, 1});
}

TEST_CASE("temperatures are fitted again and again, from a bounded number of outcomes") {
  Draw random(1);
  DraftOutcomes outcomes;
  for (int i = 0; i < 12; ++i) {
    outcomes.add(step(random, 60));
  }
  CHECK(outcomes.fits() == 1);
  for (int i = 0; i < 400; ++i) {
    outcomes.add(step(random, 1'000));
  }
  CHECK(outcomes.remembered() == DraftOutcomes::kRemembered);
  CHECK(outcomes.fits() > 5);
  CHECK(outcomes.fits() < 50);
  CHECK(outcomes.temperatures()[0] >= 7);
  CHECK(outcomes.temperatures()[0] <= 9);
  CHECK(outcomes.error_tempered() < outcomes.error_as_said() / 2);
}

TEST_CASE("another head is followed") {
  Draw random(2);
  DraftOutcomes outcomes;
  for (int i = 0; i < 400; ++i) {
    outcomes.add(step(random, 64, 32));
  }
  for (int i = 0; i < 400; ++i) {
    outcomes.add(step(random, 64, 8));
  }
  CHECK(outcomes.temperatures()[0] >= 28);
  CHECK(outcomes.temperatures()[0] <= 36);
}

TEST_CASE("outcomes of no sense harm nothing") {
  DraftOutcomes outcomes;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<RankDrafts> ranks(1);
  ranks[0].compute = milliseconds(100);
  for (int i = 0; i < 50; ++i) {
    ranks[0].outcomes.push_back(
        {.confidence = {nan, -1, 2, 0, 1}, .verified = i - 10, .accepted = 99 - i});
  }
  for (int i = 0; i < 100; ++i) {
    outcomes.add(ranks);
  }
  CHECK(outcomes.fits() > 0);
  for (std::size_t place = 0; place < kMostDrafts; ++place) {
    CHECK(outcomes.accepted()[place] <= outcomes.verified()[place]);
  }
}
