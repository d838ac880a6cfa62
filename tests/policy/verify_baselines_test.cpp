// All ways of choosing what to verify on the same hard inputs, and that none of them changes what
// is said; and what each of those beside the shipped one promises.
#include "actors/policy/verify_baselines.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <numeric>

#include "actors/policy/draw.h"
#include "tests/policy/drafted_requests.h"

using namespace shoal;
using namespace shoal::testing;

namespace {

std::int64_t sum(const std::vector<std::uint8_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::unique_ptr<VerifyPlanner> shipped() {
  return verify_policies().front().make();
}

}  // namespace

TEST_CASE("no policy verifies drafts that do not exist, or more than it planned") {
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    Draw random(20261130);
    for (int i = 0; i < 200; ++i) {
      const auto planner = row.make();
      const std::vector<Requests> ranks{drawn(static_cast<int>(random.below(60)), random),
                                        drawn(static_cast<int>(random.below(60)), random)};
      const std::vector<DraftHistogram> old{histogram(ranks[0]), histogram(ranks[1])};
      const VerifyCosts c = costs(1'000, static_cast<std::int64_t>(random.below(100)));
      const VerifyPlan plan = planner->plan(old, c);
      REQUIRE(plan.tokens.size() == 2);
      for (std::size_t r = 0; r < 2; ++r) {
        // Confidences of now; some requests have left since the sizes were made.
        Requests now = drawn(static_cast<int>(random.below(ranks[r].size() + 1)), random);
        const auto chosen = lengths(*planner, plan, now, r);
        for (std::size_t k = 0; k < now.size(); ++k) {
          REQUIRE(chosen[k] <= now[k].drafts);
        }
        if (plan.reason == VerifyReason::kBest) {
          REQUIRE(std::ssize(now) + sum(chosen) <= plan.tokens[r]);
        }
      }
    }
  }
}

TEST_CASE("every policy takes no ranks, no requests, no costs and no numbers") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Requests odd{request(nan), request(-1), request(2), {.drafts = -3}, {.drafts = 99}};
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    for (const VerifyCosts& c :
         {VerifyCosts{}, costs(0, 0), costs(0, 1), costs(1'000'000'000'000, 1'000'000'000'000)}) {
      const auto planner = row.make();
      CHECK(planner->plan({}, c).tokens.empty());
      const std::vector<DraftHistogram> old{histogram({}), histogram(odd)};
      const VerifyPlan plan = planner->plan(old, c);
      CHECK(plan.tokens.size() == 2);
      CHECK(sum(lengths(*planner, plan, odd, 1)) <= 4 * kMostDrafts);
      CHECK(lengths(*planner, plan, {}, 0).empty());
    }
  }
}

TEST_CASE("every policy gives the same sizes again, whatever the order of ranks") {
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    Draw random(7);
    std::vector<DraftHistogram> ranks;
    for (int count : {40, 90, 3, 0, 64}) {
      ranks.push_back(histogram(drawn(count, random)));
    }
    const auto tokens = row.make()->plan(ranks, costs(1'000, 7)).tokens;
    CHECK(row.make()->plan(ranks, costs(1'000, 7)).tokens == tokens);
    std::reverse(ranks.begin(), ranks.end());
    auto reversed = row.make()->plan(ranks, costs(1'000, 7)).tokens;
    std::reverse(reversed.begin(), reversed.end());
    CHECK(reversed == tokens);
  }
}

TEST_CASE("a fixed length is the one with the most tokens a second at this load") {
  const std::vector old{histogram(Requests(10, request(0.5F)))};
  const auto drafts = [&](std::int64_t token_ns) {
    return make_best_fixed()->plan(old, costs(1'000, token_ns)).most_drafts;
  };
  CHECK(drafts(0) == 5);
  CHECK(drafts(20) == 2);  // 17.5 tokens in 1,600 ns; one: 15 in 1,400; three: 18.75 in 1,800
  CHECK(drafts(10'000) == 0);
}

TEST_CASE("a threshold ends at the first draft below it") {
  DraftedRequest r;
  r.confidence = {0.9F, 0.6F, 0.4F, 0.9F, 0.9F};
  CHECK(lengths(*make_threshold_50(), {}, {r})[0] == 2);
  CHECK(lengths(*make_threshold_80(), {}, {r})[0] == 1);
}

TEST_CASE("the published planner looks behind a step in the cost, the early one stops there") {
  std::vector<Nanos> times{Nanos{0}, Nanos{10}, Nanos{30}};
  times.resize(7, Nanos{30});
  const VerifyCosts jump{.rank = StepTable(1, times)};
  const Requests one{request(0.95F)};
  const std::vector old{histogram(one)};
  CHECK(make_greedy()->plan(old, jump).tokens[0] == 6);
  const auto early = make_greedy_early();
  CHECK(lengths(*early, early->plan(old, jump), one)[0] == 0);
}

namespace {

// Three tokens and a start; the draft model is sure and right after token 0, wrong after token 1.
constexpr int kStart = 3;
constexpr double kTarget[4][3] = {{.7, .2, .1}, {.1, .2, .7}, {.3, .4, .3}, {.3, .5, .2}};
constexpr double kDraft[4][3] = {{.7, .2, .1}, {.8, .1, .1}, {.5, .3, .2}, {.5, .3, .2}};

int sample(const double* weights, Draw& random) {
  double left = random.unit() * (weights[0] + weights[1] + weights[2]);
  for (int token = 0; token < 2; ++token) {
    left -= weights[token];
    if (left < 0) {
      return token;
    }
  }
  return 2;
}

struct Speaker {
  std::vector<int> said{kStart};
  std::array<int, 2> drafts{};
  DraftedRequest request{.drafts = 2};

  void draft(Draw& random) {
    int before = said.back();
    for (std::size_t j = 0; j < 2; ++j) {
      drafts[j] = sample(kDraft[before], random);
      double overlap = 0;
      for (int token = 0; token < 3; ++token) {
        overlap += std::min(kTarget[before][token], kDraft[before][token]);
      }
      request.confidence[j] = static_cast<float>(overlap);
      before = drafts[j];
    }
  }

  // Speculative sampling of `length` drafts: what is said has the target's distribution.
  void verify(std::size_t length, Draw& random) {
    for (std::size_t j = 0; j < length; ++j) {
      const double* target = kTarget[said.back()];
      const double* draft = kDraft[said.back()];
      const int token = drafts[j];
      if (random.unit() * draft[token] >= target[token]) {
        const double rest[3] = {std::max(0.0, target[0] - draft[0]),
                                std::max(0.0, target[1] - draft[1]),
                                std::max(0.0, target[2] - draft[2])};
        said.push_back(sample(rest, random));
        return;
      }
      said.push_back(token);
    }
    said.push_back(sample(kTarget[said.back()], random));
  }
};

// Verifying one draft takes as long as two, so that the second decides whether the first pays.
VerifyCosts jagged() {
  return {.fixed = Nanos{0},
          .rank = StepTable(1, {Nanos{0}, Nanos{10}, Nanos{22}, Nanos{22}}),
          .group = StepTable()};
}

// Chi-square of the first three tokens of many answers against the target, 26 degrees of freedom.
double chi_square(VerifyPlanner& planner, bool sizes_from_current) {
  constexpr int kAnswers = 30'000;
  Draw random(99);
  std::array<int, 27> seen{};
  DraftHistogram old[3];
  for (int answer = 0; answer < kAnswers; ++answer) {
    Speaker speaker;
    while (speaker.said.size() < 4) {
      speaker.draft(random);
      old[0] = old[1];
      old[1] = old[2];
      old[2] = histogram({speaker.request});
      const VerifyPlan plan = planner.plan({&old[sizes_from_current ? 2 : 0], 1}, jagged());
      speaker.verify(lengths(planner, plan, {speaker.request})[0], random);
    }
    ++seen[static_cast<std::size_t>(speaker.said[1] * 9 + speaker.said[2] * 3 + speaker.said[3])];
  }
  double chi = 0;
  for (int i = 0; i < 27; ++i) {
    const int a = i / 9, b = i / 3 % 3, c = i % 3;
    const double expected = kAnswers * kTarget[kStart][a] * kTarget[a][b] * kTarget[b][c];
    chi += std::pow(seen[static_cast<std::size_t>(i)] - expected, 2) / expected;
  }
  return chi;
}

constexpr double kOneInAThousand = 54.05;  // 26 degrees of freedom

}  // namespace

TEST_CASE("no policy changes the distribution of what is said") {
  for (const VerifyRow& row : verify_policies()) {
    CAPTURE(row.name);
    CHECK(chi_square(*row.make(), false) < kOneInAThousand);
  }
}

TEST_CASE("sizes from current confidences do change it, and the test above would see") {
  CHECK(chi_square(*shipped(), true) > kOneInAThousand);
}
