// Sampling parameters in, stream tokens out.
#include "actors/step_results.h"

#include <utility>

#include "actors/policy/answer_end.h"
#include "actors/policy/token_rules.h"

namespace shoal {

namespace {

std::vector<TokenId> forbidden_now(const Placement& placement,
                                   std::int64_t answered,
                                   const TokenTallyPtr& seen) {
  std::vector<TokenId> forbidden = forbidden_tokens(placement.rules, answered);
  const std::vector<TokenId> ends = ends_of_bad_words(placement.submission->sampling, seen.get());
  forbidden.insert(forbidden.end(), ends.begin(), ends.end());
  return forbidden;
}

class AnswerSampling final : public kernels::SampleRules {
 public:
  AnswerSampling(PlacementPtr placement, Position before)
      : placement_(std::move(placement)),
        before_(before) {}

  bool add(kernels::SampleSpec& spec, Position position, TokenId token) const override {
    const Sampling& sampling = placement_->submission->sampling;
    const std::int64_t answered = position - before_;
    add_token(spec.seen, sampling, token);
    spec.forbidden = forbidden_now(*placement_, answered, spec.seen);
    return answer_end(placement_->rules, answered, token) == AnswerEnd::kGoesOn;
  }

 private:
  PlacementPtr placement_;
  Position before_;  // of the token before the answer's first
};

}  // namespace

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
  spec.forbidden = forbidden_now(placement, answered, seen);
  return spec;
}

std::shared_ptr<const kernels::SampleRules> sample_rules(PlacementPtr placement,
                                                         Position position,
                                                         std::int64_t answered) {
  return std::make_shared<AnswerSampling>(std::move(placement), position - answered);
}

TokenRun token_run(const Placement& placement,
                   std::span<const kernels::DrawnToken> drawn,
                   Position position,
                   std::int64_t answered) {
  TokenRun run;
  run.request = placement.submission->request;
  run.attempt = placement.submission->attempt;
  run.first_position = position;
  for (const kernels::DrawnToken& token : drawn) {
    run.tokens.push_back(token.token);
    if (placement.submission->sampling.logprobs >= 0) {
      LogprobEntry entry{token.token, token.logprob, {}};
      for (const kernels::TokenLogprob& other : token.top) {
        entry.top.emplace_back(other.token, other.logprob);
      }
      run.logprobs.push_back(std::move(entry));
    }
    switch (answer_end(placement.rules, answered++, token.token)) {
      case AnswerEnd::kGoesOn:
        break;
      case AnswerEnd::kLength:
        run.finish = Finish::kLength;
        return run;
      case AnswerEnd::kEndToken:
        run.finish = Finish::kStop;
        run.stop_token = token.token;
        return run;
    }
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
