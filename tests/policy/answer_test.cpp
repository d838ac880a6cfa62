// How long an answer may be, when it ends, and which rows a prefill runs.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "actors/policy/answer_end.h"
#include "actors/policy/kv_budget.h"
#include "actors/policy/prefill_rows.h"

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

TEST_CASE("a bounded request's decoder half starts one window before the prompt's end") {
  CHECK(first_basis(BasisMode::kBounded, 300, 128).tail_start == 172);
  CHECK(first_basis(BasisMode::kBounded, 100, 128).tail_start == 0);
  CHECK(first_basis(BasisMode::kExact, 300, 128).tail_start == 0);
}

TEST_CASE("a bounded prompt runs the encoder half, finishes once, and samples") {
  const PrefillSpan span{.prompt = 300, .total = 300, .mode = BasisMode::kBounded};
  const PrefillRows first = prefill_rows(span, 0, 256);
  CHECK((first.encoder_only && !first.finishes_prompt && !first.samples));
  const PrefillRows last = prefill_rows(span, 256, 44);
  CHECK((last.encoder_only && last.finishes_prompt && last.samples));
}

TEST_CASE("tokens the client already has follow a bounded prompt as decode rows") {
  const PrefillSpan span{.prompt = 300, .total = 310, .mode = BasisMode::kBounded};
  CHECK(chunk_border(span, 256) == 300);
  const PrefillRows prompt_end = prefill_rows(span, 256, 44);
  CHECK((prompt_end.finishes_prompt && !prompt_end.samples));
  CHECK(chunk_border(span, 300) == 310);
  const PrefillRows forced = prefill_rows(span, 300, 10);
  CHECK((!forced.encoder_only && !forced.finishes_prompt && forced.samples));
}

TEST_CASE("an exact prompt runs every layer and its chunks may cross into forced tokens") {
  const PrefillSpan span{.prompt = 300, .total = 310, .mode = BasisMode::kExact};
  CHECK(chunk_border(span, 0) == 310);
  const PrefillRows rows = prefill_rows(span, 256, 54);
  CHECK((!rows.encoder_only && !rows.finishes_prompt && rows.samples));
}

TEST_CASE("any chunking covers every row once, finishes the prompt once and samples once") {
  std::mt19937_64 random(11);
  MESSAGE("seed 11");
  for (int round = 0; round < 1'000; ++round) {
    PrefillSpan span{.prompt = static_cast<Position>(1 + random() % 1'000), .total = 0, .mode = random() % 2 == 0 ? BasisMode::kExact : BasisMode::kBounded};
    span.total = span.prompt + static_cast<Position>(random() % 50);
    int finished = 0;
    int sampled = 0;
    Position done = 0;
    while (done < span.total) {
      const Position room = chunk_border(span, done) - done;
      const PrefillRows rows = prefill_rows(span, done, 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(room)));
      REQUIRE(rows.first == done);
      REQUIRE(rows.encoder_only == (span.mode == BasisMode::kBounded && done < span.prompt));
      done += rows.count;
      finished += rows.finishes_prompt ? 1 : 0;
      sampled += rows.samples ? 1 : 0;
    }
    REQUIRE(finished == (span.mode == BasisMode::kBounded ? 1 : 0));
    REQUIRE(sampled == 1);
  }
}
