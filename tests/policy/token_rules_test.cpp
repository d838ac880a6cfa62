// What penalties and bad words look at.
#include "actors/policy/token_rules.h"

#include <doctest/doctest.h>
#include <vector>

using namespace shoal;

namespace {

using Tokens = std::vector<TokenId>;
using Counts = std::vector<std::pair<TokenId, std::int32_t>>;

Sampling bad_words(std::vector<Tokens> words) {
  Sampling sampling;
  sampling.bad_words = std::move(words);
  return sampling;
}

}  // namespace

TEST_CASE("a request without penalties and long bad words keeps nothing") {
  CHECK(tally_of({}, Tokens{1, 2}, Tokens{3}) == nullptr);
  CHECK(tally_of(bad_words({{7}}), Tokens{1, 2}, Tokens{3}) == nullptr);
  TokenTallyPtr none;
  add_token(none, {}, 4);
  CHECK(none == nullptr);
}

TEST_CASE("penalties count the answer, repetition knows the prompt, too") {
  Sampling sampling;
  sampling.presence_penalty = 1;
  auto tally = tally_of(sampling, Tokens{9, 9, 2}, Tokens{5, 3, 5});
  CHECK(tally->prompt == nullptr);
  CHECK(tally->answer == Counts{{3, 1}, {5, 2}});
  sampling.repetition_penalty = 1.2F;
  tally = tally_of(sampling, Tokens{9, 9, 2}, Tokens{});
  CHECK(*tally->prompt == Tokens{2, 9});
}

TEST_CASE("adding tokens one by one is the same as having had them, and changes nobody's view") {
  Sampling sampling = bad_words({{1, 2, 3}});
  sampling.frequency_penalty = 0.5F;
  const Tokens answer = {4, 1, 4, 2, 1, 1, 9, 4};
  TokenTallyPtr grown = tally_of(sampling, Tokens{}, Tokens{});
  const TokenTallyPtr before = grown;
  for (const TokenId token : answer) {
    add_token(grown, sampling, token);
  }
  const TokenTallyPtr whole = tally_of(sampling, Tokens{}, answer);
  CHECK(grown->answer == whole->answer);
  CHECK(grown->recent == whole->recent);
  CHECK(grown->recent == Tokens{9, 4});
  CHECK(before->answer.empty());
}

TEST_CASE("the last token of a bad word is out where the others end the answer") {
  const Sampling sampling = bad_words({{7}, {1, 2}, {3, 1, 5}});
  CHECK(ends_of_bad_words(sampling, nullptr) == Tokens{7});
  CHECK(ends_of_bad_words(sampling, tally_of(sampling, Tokens{1}, Tokens{}).get()) == Tokens{7});
  CHECK(ends_of_bad_words(sampling, tally_of(sampling, Tokens{}, Tokens{1}).get()) == Tokens{7, 2});
  CHECK(ends_of_bad_words(sampling, tally_of(sampling, Tokens{}, Tokens{8, 3, 1}).get()) ==
        Tokens{7, 2, 5});
}
