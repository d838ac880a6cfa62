// Rejection sampling against the golden cases, and tokens by distribution: with drafts of another
// distribution, what is drawn has the target's.
#include "kernels/rejection.h"

#include <cmath>
#include <doctest/doctest.h>

#include "kernels/model/continuation.h"
#include "tests/kernels/golden.h"

namespace shoal::kernels {
namespace {

constexpr std::int64_t kVocab = 6;

class NoRules final : public SampleRules {
 public:
  bool add(SampleSpec&, Position, TokenId) const override { return true; }
};

std::vector<float> logits_of(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) {
    logits.push_back(static_cast<float>(std::log(x)));
  }
  return logits;
}

double chi_square(const std::vector<std::int64_t>& counts, const std::vector<double>& p) {
  double total = 0;
  for (const std::int64_t count : counts) {
    total += static_cast<double>(count);
  }
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * total;
    sum += (static_cast<double>(counts[i]) - expected) *
           (static_cast<double>(counts[i]) - expected) / expected;
  }
  return sum;
}

}  // namespace

TEST_CASE("drafts are accepted as in the reference, and what is drawn instead is the same") {
  const test::Golden golden("ops/sampling");
  const std::vector<std::int64_t> drafts = golden.ints("accept.drafts");
  const std::vector<float> q = golden.floats("accept.draft_p");
  const std::vector<float> p = golden.floats("accept.target_p");
  const std::vector<float> uniforms = golden.floats("accept.uniforms");
  const std::vector<float> noise = golden.floats("accept.noise");
  const std::vector<std::int64_t> accepted = golden.ints("accept.accepted");
  const std::vector<std::int64_t> next = golden.ints("accept.next");
  const std::size_t cases = accepted.size();
  const std::size_t length = drafts.size() / cases;
  const std::size_t vocab = noise.size() / cases;
  const auto row = [vocab](const std::vector<float>& values, std::size_t i) {
    return std::span(values).subspan(i * vocab, vocab);
  };
  REQUIRE(cases == 64);
  for (std::size_t c = 0; c < cases; ++c) {
    CAPTURE(c);
    std::size_t held = 0;
    while (held < length && is_accepted(row(p, c * (length + 1) + held),
                                        row(q, c * length + held),
                                        static_cast<TokenId>(drafts[c * length + held]),
                                        uniforms[c * length + held])) {
      ++held;
    }
    CHECK(held == static_cast<std::size_t>(accepted[c]));
    const auto target = row(p, c * (length + 1) + held);
    CHECK(next[c] == (held == length
                          ? pick(target, row(noise, c))
                          : pick_rest(target, row(q, c * length + held), row(noise, c))));
  }
}

// Bounds of chi-square at 5 and 10 degrees of freedom and a chance of 1e-4: 25.7 and 35.6.
TEST_CASE("over 100,000 draws, tokens behind drafts have the target's distribution either way") {
  const std::vector<double> p = {0.4, 0.25, 0.15, 0.1, 0.07, 0.03};
  const std::vector<double> q = {0.1, 0.1, 0.5, 0.1, 0.1, 0.1};
  const std::vector<float> target = logits_of(p);
  const std::vector<float> draft = logits_of(q);
  std::vector<float> two = target;
  two.insert(two.end(), target.begin(), target.end());
  const NoRules rules;
  RowRun run;
  run.rules = std::make_shared<NoRules>();
  for (const Acceptance acceptance : {Acceptance::kCoupled, Acceptance::kRejection}) {
    std::vector<std::int64_t> first(kVocab, 0);
    std::vector<std::int64_t> second(kVocab, 0);
    int held = 0;
    constexpr int kDraws = 100'000;
    for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
      Continuation next{.next = 9, .sampling = {}};
      next.sampling.temperature = 1;
      next.sampling.seed = seed;
      DraftChoice choice(rules, acceptance, next);
      next.drafts = {choice.choose(draft)};
      const auto drawn = draw_tokens(run, 10, two, kVocab, acceptance, next);
      ++first[static_cast<std::size_t>(drawn[0].token)];
      if (drawn.size() > 1) {
        ++held;
        ++second[static_cast<std::size_t>(drawn[1].token)];
      }
    }
    CAPTURE(acceptance);
    CHECK(chi_square(first, p) < 25.7);
    CHECK(chi_square(second, p) < 25.7);
    // The overlap of both distributions, 0.55, is what rejection accepts; coupling cannot do
    // better.
    const double accepted = static_cast<double>(held) / kDraws;
    MESSAGE("accepted: " << accepted);
    CHECK(accepted < 0.56);
    CHECK(accepted > (acceptance == Acceptance::kRejection ? 0.54 : 0.45));
  }
}

}  // namespace shoal::kernels
