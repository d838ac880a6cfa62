// When an answer ends, how long it may be, and what memory that may need.
#include "actors/policy/answer_end.h"

#include <doctest/doctest.h>
#include <vector>

#include "actors/policy/kv_budget.h"

using namespace shoal;

TEST_CASE("the worst case of KV is prompt plus answer in whole blocks") {
  CHECK(worst_case_blocks(100, 28) == 1);
  CHECK(worst_case_blocks(100, 29) == 2);
  CHECK(worst_case_blocks(128 * 7, 1) == 8);
}

TEST_CASE("an answer is cut to the context") {
  CHECK(answer_ceiling(100, 50, 1'000) == 50);
  CHECK(answer_ceiling(980, 50, 1'000) == 20);
  CHECK(answer_ceiling(100, 0, 1'000) == 900);
}

TEST_CASE("an answer fits only when both blocks and a slot are there") {
  CHECK(fits({5, 1}, 5));
  CHECK_FALSE(fits({4, 1}, 5));
  CHECK_FALSE(fits({5, 0}, 5));
}

TEST_CASE("EOS and stop tokens end an answer, max_tokens at the latest") {
  Sampling sampling;
  sampling.stop_token_ids = {40, 41};
  const AnswerRules rules = answer_rules(sampling, 3, 1);
  CHECK(answer_end(rules, 1, 9) == AnswerEnd::kGoesOn);
  CHECK(answer_end(rules, 1, 1) == AnswerEnd::kEndToken);
  CHECK(answer_end(rules, 2, 41) == AnswerEnd::kEndToken);
  CHECK(answer_end(rules, 3, 9) == AnswerEnd::kLength);
  CHECK(answer_end(rules, 3, 1) == AnswerEnd::kEndToken);
}

TEST_CASE("an ignored EOS is an ordinary token, a client's stop token is not") {
  Sampling sampling;
  sampling.ignore_eos = true;
  sampling.stop_token_ids = {40};
  const AnswerRules rules = answer_rules(sampling, 10, 1);
  CHECK(answer_end(rules, 1, 1) == AnswerEnd::kGoesOn);
  CHECK(answer_end(rules, 1, 40) == AnswerEnd::kEndToken);
}

TEST_CASE("no end token may be drawn below min_tokens") {
  Sampling sampling;
  sampling.min_tokens = 2;
  sampling.stop_token_ids = {40};
  const AnswerRules rules = answer_rules(sampling, 10, 1);
  CHECK(forbidden_tokens(rules, 0) == std::vector<TokenId>{40, 1});
  CHECK(forbidden_tokens(rules, 1) == std::vector<TokenId>{40, 1});
  CHECK(forbidden_tokens(rules, 2).empty());
}
