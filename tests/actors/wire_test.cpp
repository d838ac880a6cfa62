// What goes through the wire encoding comes out equal, floats bit by bit; damage is found.
#include "actors/wire.h"

#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace shoal;
using std::chrono::seconds;

namespace {

constexpr Instant kNow{seconds(500)};

Submission full_submission() {
  Submission submission;
  submission.request = RequestId{0xFFFF'FFFF'FFFF'FFFFULL};
  submission.attempt = AttemptId{3};
  submission.shard = 2;
  submission.choice = 1;
  submission.prompt =
      std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{1, 2, 129'279});
  submission.forced = {7, 8};
  submission.sampling.temperature = 0.1F;
  submission.sampling.min_p = std::numeric_limits<float>::denorm_min();
  submission.sampling.logit_bias = {{5, -0.0F}, {6, std::numeric_limits<float>::infinity()}};
  submission.sampling.bad_words = {{1}, {2, 3}};
  submission.sampling.seed = 0x8000'0000'0000'0001ULL;
  submission.sampling.has_seed = true;
  submission.sampling.stop_token_ids = {9};
  submission.sampling.logprobs = 20;
  submission.mode = BasisMode::kExact;
  submission.basis = Basis{BasisMode::kExact, 256, 128, 0, 77};
  submission.deadline = kNow + seconds(10);
  submission.tenant = "somebody";
  return submission;
}

}  // namespace

TEST_CASE("a submission survives the wire, its deadline as time left on another clock") {
  const Submission sent = full_submission();
  const auto bytes = wire_codec::encode(sent, kNow);
  REQUIRE(bytes.has_value());
  const Instant other_clock{seconds(9'000)};
  const auto got = wire_codec::decode_submission(*bytes, other_clock);
  REQUIRE(got.has_value());
  CHECK(got->request == sent.request);
  CHECK(got->attempt == sent.attempt);
  CHECK(got->shard == sent.shard);
  CHECK(got->choice == sent.choice);
  CHECK(*got->prompt == *sent.prompt);
  CHECK(got->forced == sent.forced);
  CHECK(got->sampling == sent.sampling);
  CHECK(got->mode == sent.mode);
  CHECK(got->basis == sent.basis);
  CHECK(got->deadline == other_clock + seconds(10));
  CHECK(got->tenant == sent.tenant);
}

TEST_CASE("a prompt longer than a message may carry is refused") {
  Submission submission = full_submission();
  submission.prompt =
      std::make_shared<const std::vector<TokenId>>(wire_codec::kInlineTokens + 1, 5);
  const auto bytes = wire_codec::encode(submission, kNow);
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().code == Code::kTooLarge);
}

TEST_CASE("tokens and failures survive the wire") {
  TokenRun run;
  run.request = RequestId{4};
  run.attempt = AttemptId{2};
  run.first_position = 1'000'000;
  run.tokens = {5, 6};
  run.logprobs = {{5, -0.5F, {{5, -0.5F}, {9, -2.0F}}},
                  {6, -std::numeric_limits<float>::infinity(), {}}};
  run.basis = Basis{BasisMode::kBounded, 0, 0, 872, 0};
  run.cached_tokens = 128;
  run.finish = Finish::kStop;
  run.stop_token = 6;
  const auto runs = wire_codec::decode_runs(wire_codec::encode(wire_codec::ShardRuns{3, {run}}));
  REQUIRE(runs.has_value());
  CHECK(runs->shard == 3);
  REQUIRE(runs->runs.size() == 1);
  const TokenRun& got = runs->runs[0];
  CHECK(got.first_position == run.first_position);
  CHECK(got.tokens == run.tokens);
  CHECK(got.logprobs[0].top == run.logprobs[0].top);
  CHECK(got.logprobs[1].logprob == run.logprobs[1].logprob);
  CHECK(got.basis == run.basis);
  CHECK(got.finish == run.finish);
  CHECK(got.stop_token == run.stop_token);

  const StreamFailure failure{
      RequestId{4}, AttemptId{2}, Error{Code::kNoCapacity, "later"}, true, seconds(3)};
  const auto failed =
      wire_codec::decode_failure(wire_codec::encode(wire_codec::ShardFailure{1, failure}));
  REQUIRE(failed.has_value());
  CHECK(failed->failure.error == failure.error);
  CHECK(failed->failure.retry);
  CHECK(failed->failure.retry_after == failure.retry_after);
}

TEST_CASE("damaged bytes are corrupt or decode to something, never a crash") {
  const std::string whole = *wire_codec::encode(full_submission(), kNow);
  CHECK(wire_codec::decode_submission(std::string_view(whole).substr(0, whole.size() - 1), kNow)
            .error()
            .code == Code::kCorrupt);
  std::mt19937_64 random(8);
  MESSAGE("seed 8");
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto got = wire_codec::decode_submission(bytes, kNow);
    if (got) {
      CHECK(got->prompt != nullptr);
      CHECK(static_cast<int>(got->mode) <= 1);
    } else {
      CHECK(got.error().code == Code::kCorrupt);
    }
  }
}
