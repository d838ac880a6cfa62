// Field by field in both directions; enumerators out of range are corrupt, not cast.
#include "actors/wire_fields.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace shoal::wire_codec {

tl::unexpected<Error> corrupt(const char* field) {
  return fail(Code::kCorrupt, std::string("wire message: ") + field + " is damaged");
}

Result<Code> code_of(std::uint32_t code) {
  if (code >= static_cast<std::uint32_t>(kCodeCount)) {
    return corrupt("code");
  }
  return static_cast<Code>(code);
}

std::string bytes_of(const BlockKey& key) {
  std::string out(key.bytes.size(), '\0');
  std::memcpy(out.data(), key.bytes.data(), key.bytes.size());
  return out;
}

Result<BlockKey> block_key(const std::string& in) {
  BlockKey key;
  if (in.size() != key.bytes.size()) {
    return corrupt("block key");
  }
  std::memcpy(key.bytes.data(), in.data(), in.size());
  return key;
}

void put(const Basis& basis, wire::Basis& out) {
  out.set_mode(static_cast<std::uint32_t>(basis.mode));
  out.set_hit(basis.hit);
  out.set_replay_floor(basis.replay_floor);
  out.set_tail_start(basis.tail_start);
  out.set_lineage(basis.lineage);
}

Result<BasisMode> mode_of(std::uint32_t mode) {
  if (mode > static_cast<std::uint32_t>(BasisMode::kBounded)) {
    return corrupt("mode");
  }
  return static_cast<BasisMode>(mode);
}

Result<Basis> get(const wire::Basis& in) {
  TRY(const BasisMode mode, mode_of(in.mode()));
  return Basis{mode, in.hit(), in.replay_floor(), in.tail_start(), in.lineage()};
}

void put(const Sampling& sampling, wire::Sampling& out) {
  out.set_temperature(sampling.temperature);
  out.set_top_p(sampling.top_p);
  out.set_min_p(sampling.min_p);
  out.set_top_k(sampling.top_k);
  out.set_frequency_penalty(sampling.frequency_penalty);
  out.set_presence_penalty(sampling.presence_penalty);
  out.set_repetition_penalty(sampling.repetition_penalty);
  for (const auto& [token, bias] : sampling.logit_bias) {
    wire::Bias& entry = *out.add_logit_bias();
    entry.set_token(token);
    entry.set_bias(bias);
  }
  out.set_seed(sampling.seed);
  out.set_has_seed(sampling.has_seed);
  out.set_max_tokens(sampling.max_tokens);
  out.set_min_tokens(sampling.min_tokens);
  out.mutable_stop_token_ids()->Assign(sampling.stop_token_ids.begin(),
                                       sampling.stop_token_ids.end());
  out.set_ignore_eos(sampling.ignore_eos);
  out.set_logprobs(sampling.logprobs);
  for (const std::vector<TokenId>& word : sampling.bad_words) {
    out.add_bad_words()->mutable_tokens()->Assign(word.begin(), word.end());
  }
}

Sampling get(const wire::Sampling& in) {
  Sampling sampling;
  sampling.temperature = in.temperature();
  sampling.top_p = in.top_p();
  sampling.min_p = in.min_p();
  sampling.top_k = in.top_k();
  sampling.frequency_penalty = in.frequency_penalty();
  sampling.presence_penalty = in.presence_penalty();
  sampling.repetition_penalty = in.repetition_penalty();
  for (const wire::Bias& entry : in.logit_bias()) {
    sampling.logit_bias.emplace_back(entry.token(), entry.bias());
  }
  sampling.seed = in.seed();
  sampling.has_seed = in.has_seed();
  sampling.max_tokens = in.max_tokens();
  sampling.min_tokens = in.min_tokens();
  sampling.stop_token_ids.assign(in.stop_token_ids().begin(), in.stop_token_ids().end());
  sampling.ignore_eos = in.ignore_eos();
  sampling.logprobs = in.logprobs();
  for (const wire::BadWord& word : in.bad_words()) {
    if (word.tokens_size() > 0) {
      sampling.bad_words.emplace_back(word.tokens().begin(), word.tokens().end());
    }
  }
  return sampling;
}

void put(const LogprobEntry& entry, wire::Logprob& out) {
  out.set_token(entry.token);
  out.set_logprob(entry.logprob);
  for (const auto& [token, logprob] : entry.top) {
    wire::TokenLogprob& other = *out.add_top();
    other.set_token(token);
    other.set_logprob(logprob);
  }
}

LogprobEntry get(const wire::Logprob& in) {
  LogprobEntry entry{in.token(), in.logprob(), {}};
  for (const wire::TokenLogprob& other : in.top()) {
    entry.top.emplace_back(other.token(), other.logprob());
  }
  return entry;
}

void put(const TokenRun& run, wire::TokenRun& out) {
  out.mutable_key()->set_request(run.request.value);
  out.mutable_key()->set_attempt(run.attempt.value);
  out.set_first_position(run.first_position);
  out.mutable_tokens()->Assign(run.tokens.begin(), run.tokens.end());
  for (const LogprobEntry& entry : run.logprobs) {
    put(entry, *out.add_logprobs());
  }
  if (run.basis) {
    put(*run.basis, *out.mutable_basis());
  }
  out.set_cached_tokens(run.cached_tokens);
  out.set_finish(static_cast<std::uint32_t>(run.finish));
  out.set_stop_token(run.stop_token);
}

Result<TokenRun> get(const wire::TokenRun& in) {
  if (in.finish() > static_cast<std::uint32_t>(Finish::kLength)) {
    return corrupt("finish");
  }
  if (in.logprobs_size() != 0 && in.logprobs_size() != in.tokens_size()) {
    return corrupt("logprobs");
  }
  TokenRun run;
  run.request = RequestId{in.key().request()};
  run.attempt = AttemptId{in.key().attempt()};
  run.first_position = in.first_position();
  run.tokens.assign(in.tokens().begin(), in.tokens().end());
  for (const wire::Logprob& entry : in.logprobs()) {
    run.logprobs.push_back(get(entry));
  }
  if (in.has_basis()) {
    TRY(run.basis, get(in.basis()));
  }
  run.cached_tokens = in.cached_tokens();
  run.finish = static_cast<Finish>(in.finish());
  run.stop_token = in.stop_token();
  return run;
}

void put(const Submission& submission, Instant now, bool with_prompt, wire::Submission& out) {
  out.set_request(submission.request.value);
  out.set_attempt(submission.attempt.value);
  out.set_gateway(submission.gateway.value);
  out.set_shard(submission.shard);
  out.set_choice(submission.choice);
  if (with_prompt) {
    out.mutable_prompt()->Assign(submission.prompt->begin(), submission.prompt->end());
  }
  out.mutable_forced()->Assign(submission.forced.begin(), submission.forced.end());
  put(submission.sampling, *out.mutable_sampling());
  out.set_mode(static_cast<std::uint32_t>(submission.mode));
  if (submission.basis) {
    put(*submission.basis, *out.mutable_basis());
  }
  out.set_time_left_ns(std::min<Nanos>(submission.deadline - now, kLongestDeadline).count());
  out.set_tenant(submission.tenant);
  out.set_ttl(static_cast<std::uint32_t>(submission.ttl));
}

Result<Submission> get(const wire::Submission& in, Instant now) {
  Submission submission;
  submission.request = RequestId{in.request()};
  submission.attempt = AttemptId{in.attempt()};
  submission.gateway = NodeId{in.gateway()};
  submission.shard = in.shard();
  submission.choice = in.choice();
  submission.prompt =
      std::make_shared<const std::vector<TokenId>>(in.prompt().begin(), in.prompt().end());
  submission.forced.assign(in.forced().begin(), in.forced().end());
  submission.sampling = get(in.sampling());
  TRY(submission.mode, mode_of(in.mode()));
  if (in.has_basis()) {
    TRY(submission.basis, get(in.basis()));
  }
  if (in.time_left_ns() > kLongestDeadline.count() ||
      in.time_left_ns() < -kLongestDeadline.count()) {
    return corrupt("time_left_ns");
  }
  submission.deadline = now + Nanos{in.time_left_ns()};
  submission.tenant = in.tenant();
  if (in.ttl() >= static_cast<std::uint32_t>(kTtlClasses)) {
    return corrupt("ttl");
  }
  submission.ttl = static_cast<TtlClass>(in.ttl());
  return submission;
}

}  // namespace shoal::wire_codec
