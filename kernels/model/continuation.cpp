// A token is drawn by its position and what was drawn before it, so that it is the same whether its
// row was a draft's or not.
#include "kernels/model/continuation.h"

#include <utility>

#include "kernels/sampler.h"

namespace shoal::kernels {

std::optional<DrawnToken> draw_token(const SampleSpec& sampling,
                                     Position position,
                                     std::span<const float> logits) {
  SamplerInput in;
  in.logits = logits;
  in.temperature = sampling.temperature;
  in.top_p = sampling.top_p;
  in.min_p = sampling.min_p;
  in.top_k = sampling.top_k;
  in.seed = sampling.seed;
  in.choice = sampling.choice;
  in.position = position;
  in.repetition_penalty = sampling.repetition_penalty;
  in.frequency_penalty = sampling.frequency_penalty;
  in.presence_penalty = sampling.presence_penalty;
  in.seen = sampling.seen.get();
  in.bias = sampling.bias;
  in.forbidden = sampling.forbidden;
  in.logprobs = sampling.top_logprobs;
  auto sampled = sample(in);
  if (!sampled) {
    return std::nullopt;
  }
  return DrawnToken{sampled->token, sampled->logprob, sampled->margin, std::move(sampled->top)};
}

std::vector<DrawnToken> draw_tokens(const RowRun& run,
                                    Position position,
                                    std::span<const float> logits,
                                    std::int64_t vocab,
                                    Continuation& next) {
  const std::vector<TokenId> drafts = std::exchange(next.drafts, {});
  next.confidence = {};
  std::vector<DrawnToken> drawn;
  for (auto row = static_cast<std::size_t>(vocab); logits.size() >= row;
       logits = logits.subspan(row)) {
    auto token = draw_token(next.sampling, position, logits.first(row));
    if (!token) {
      break;
    }
    const bool held = drawn.size() < drafts.size() && drafts[drawn.size()] == token->token;
    next.next = position;
    next.token = token->token;
    drawn.push_back(*std::move(token));
    next.ended = run.rules != nullptr && !run.rules->add(next.sampling, position, next.token);
    if (!held || next.ended) {
      break;
    }
    ++position;
  }
  return drawn;
}

DraftChoice::DraftChoice(const SampleRules& rules, const Continuation& next)
    : rules_(rules),
      sampling_(next.sampling),
      position_(next.next + 1) {}

TokenId DraftChoice::choose(std::span<const float> logits) {
  if (ended_) {
    return -1;
  }
  sampling_.top_logprobs = -1;
  const auto draft = draw_token(sampling_, position_, logits);
  if (!draft) {
    ended_ = true;
    return -1;
  }
  ended_ = !rules_.add(sampling_, position_, draft->token);
  ++position_;
  return draft->token;
}

}  // namespace shoal::kernels
