// A token is drawn by its position and what was drawn before it, so that it is the same whether its
// row was a draft's or not.
#include "kernels/model/continuation.h"

#include <utility>

#include "kernels/sampler.h"

namespace shoal::kernels {

namespace {

SamplerInput sampler_input(const SampleSpec& sampling,
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
  return in;
}

}  // namespace

std::vector<DrawnToken> draw_tokens(const RowRun& run,
                                    Position position,
                                    std::span<const float> logits,
                                    std::int64_t vocab,
                                    Acceptance acceptance,
                                    Continuation& next) {
  const std::vector<TokenId> drafts = std::exchange(next.drafts, {});
  const auto draft_p = std::exchange(next.draft_p, {});
  next.confidence = {};
  std::vector<DrawnToken> drawn;
  for (const auto row = static_cast<std::size_t>(vocab); logits.size() >= row;
       logits = logits.subspan(row)) {
    const std::size_t place = drawn.size();
    SamplerInput in = sampler_input(next.sampling, position, logits.first(row));
    if (acceptance == Acceptance::kRejection && place < drafts.size()) {
      in.chosen = accept_or_draw(in, drafts[place], draft_p[place]);
    }
    auto token = sample(in);
    if (!token) {
      break;
    }
    drawn.push_back({token->token, token->logprob, token->margin, std::move(token->top)});
    next.next = position++;
    next.token = token->token;
    next.ended = run.rules != nullptr && !run.rules->add(next.sampling, next.next, next.token);
    if (next.ended || place >= drafts.size() || drafts[place] != next.token) {
      break;
    }
  }
  return drawn;
}

DraftChoice::DraftChoice(const SampleRules& rules, Acceptance acceptance, Continuation& next)
    : rules_(rules),
      acceptance_(acceptance),
      next_(next),
      sampling_(next.sampling),
      position_(next.next + 1) {
  sampling_.top_logprobs = -1;
}

TokenId DraftChoice::choose(std::span<const float> logits) {
  const std::optional<TokenId> draft = ended_ ? std::nullopt : draw(logits);
  ended_ = !draft || !rules_.add(sampling_, position_++, *draft);
  return draft.value_or(-1);
}

std::optional<TokenId> DraftChoice::draw(std::span<const float> logits) {
  const SamplerInput in = sampler_input(sampling_, position_, logits);
  const auto drawn = sample(in);
  if (!drawn || acceptance_ == Acceptance::kCoupled) {
    return drawn ? std::optional(drawn->token) : std::nullopt;
  }
  next_.draft_p.push_back(probabilities(in));
  return draw_draft(in, next_.draft_p.back());
}

}  // namespace shoal::kernels
