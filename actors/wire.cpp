// Each message that crosses the front door, as bytes.
#include "actors/wire.h"

#include <utility>

#include "actors/wire_fields.h"

namespace shoal::wire_codec {

Result<std::string> encode(const Submission& submission, Instant now) {
  if (submission.prompt->size() > kInlineTokens) {
    return fail(Code::kTooLarge,
                "a prompt of " + std::to_string(submission.prompt->size()) +
                    " tokens is longer than a message may carry (" + std::to_string(kInlineTokens) +
                    ")");
  }
  wire::Submission out;
  put(submission, now, true, out);
  return out.SerializeAsString();
}

Result<Submission> decode_submission(std::string_view bytes, Instant now) {
  TRY(const wire::Submission in, parse<wire::Submission>(bytes, "submission"));
  return get(in, now);
}

std::string encode(const ShardRuns& batch) {
  wire::TokenBatch out;
  out.set_shard(batch.shard);
  for (const TokenRun& run : batch.runs) {
    put(run, *out.add_runs());
  }
  return out.SerializeAsString();
}

Result<ShardRuns> decode_runs(std::string_view bytes) {
  TRY(const wire::TokenBatch in, parse<wire::TokenBatch>(bytes, "token batch"));
  ShardRuns batch{in.shard(), {}};
  for (const wire::TokenRun& run : in.runs()) {
    TRY(TokenRun decoded, get(run));
    batch.runs.push_back(std::move(decoded));
  }
  return batch;
}

std::string encode(const ShardFailure& failure) {
  wire::Failure out;
  out.set_shard(failure.shard);
  out.mutable_key()->set_request(failure.failure.request.value);
  out.mutable_key()->set_attempt(failure.failure.attempt.value);
  out.set_code(static_cast<std::uint32_t>(failure.failure.error.code));
  out.set_message(failure.failure.error.message);
  out.set_retry(failure.failure.retry);
  if (failure.failure.retry_after) {
    out.set_retry_after_ns(failure.failure.retry_after->count());
  }
  return out.SerializeAsString();
}

Result<ShardFailure> decode_failure(std::string_view bytes) {
  TRY(const wire::Failure in, parse<wire::Failure>(bytes, "failure"));
  if (in.code() >= static_cast<std::uint32_t>(kCodeCount)) {
    return corrupt("code");
  }
  ShardFailure failure;
  failure.shard = in.shard();
  failure.failure.request = RequestId{in.key().request()};
  failure.failure.attempt = AttemptId{in.key().attempt()};
  failure.failure.error = Error{static_cast<Code>(in.code()), in.message()};
  failure.failure.retry = in.retry();
  if (in.has_retry_after_ns()) {
    failure.failure.retry_after = Nanos{in.retry_after_ns()};
  }
  return failure;
}

}  // namespace shoal::wire_codec
