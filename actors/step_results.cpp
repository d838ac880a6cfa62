// Sampling parameters in, stream tokens out.
#include "actors/step_results.h"

#include <utility>

#include "actors/policy/answer_end.h"
#include "actors/policy/token_rules.h"

namespace shoal {

kernels::SampleSpec sample_spec(const Placement& placement,
                                std::int64_t answered,
                                const TokenTallyPtr& seen) {
  const Submission& submission = *placement.submission;
  const Sampling& sampling = submission.sampling;
  kernels::SampleSpec spec;
  spec.temperature = sampling.temperature;
  spec.top_p = sampling.top_p;
  spec.min_p = sampling.min_p;
  spec.top_k = sampling.top_k;
  spec.seed = sampling.seed;
  spec.choice = submission.choice;
  spec.top_logprobs = sampling.logprobs;
  spec.repetition_penalty = sampling.repetition_penalty;
  spec.frequency_penalty = sampling.frequency_penalty;
  spec.presence_penalty = sampling.presence_penalty;
  spec.seen = seen;
  spec.bias = sampling.logit_bias;
  spec.forbidden = forbidden_tokens(placement.rules, answered);
  const std::vector<TokenId> ends = ends_of_bad_words(sampling, seen.get());
  spec.forbidden.insert(spec.forbidden.end(), ends.begin(), ends.end());
  return spec;
}

TokenRun token_run(const Placement& placement,
                   const kernels::RunResult& result,
                   Position position,
                   std::int64_t answered) {
  TokenRun run;
  run.request = placement.submission->request;
  run.attempt = placement.submission->attempt;
  run.first_position = position;
  run.tokens = {result.token};
  if (placement.submission->sampling.logprobs >= 0) {
    LogprobEntry entry{result.token, result.logprob, {}};
    for (const kernels::TokenLogprob& other : result.top) {
      entry.top.emplace_back(other.token, other.logprob);
    }
    run.logprobs.push_back(std::move(entry));
  }
  switch (answer_end(placement.rules, answered, result.token)) {
    case AnswerEnd::kGoesOn:
      break;
    case AnswerEnd::kLength:
      run.finish = Finish::kLength;
      break;
    case AnswerEnd::kEndToken:
      run.finish = Finish::kStop;
      run.stop_token = result.token;
      break;
  }
  return run;
}

void ShardBatches::send(const Wiring& wiring) {
  for (auto& [place, runs] : by_shard_) {
    notify(wiring.at(place.first).gateway, TokenBatch{place.second, std::move(runs)});
  }
  by_shard_.clear();
}

}  // namespace shoal
