// Feeds the decoder and tells it how the node ended the answer.
#include "actors/http_choice.h"

#include <utility>

namespace shoal {

HttpChoice::HttpChoice(const ServedModel& model, DecoderSetup setup)
    : eos_(model.profile->eos.id),
      decoder_(
          std::make_unique<StreamDecoder>(*model.tokenizer, *model.profile, std::move(setup))) {}

Result<std::optional<std::int64_t>> HttpChoice::add(const ChoiceTokens& tokens,
                                                    std::vector<StreamEvent>& events) {
  // A stop token of the request is never shown; EOS the decoder knows itself.
  const bool hides_last = tokens.finish == Finish::kStop && tokens.stop_token != eos_ &&
                          !tokens.tokens.empty() && tokens.tokens.back() == tokens.stop_token;
  const auto shown = tokens.tokens.first(tokens.tokens.size() - (hides_last ? 1 : 0));
  for (const TokenId id : shown) {
    TRY_VOID(decoder_->push(id, events));
    if (decoder_->has_ended())
      return std::optional<std::int64_t>(decoder_->completion_tokens());
  }
  if (hides_last)
    decoder_->count_hidden_token();
  if (tokens.finish == Finish::kStop)
    decoder_->finish(EndReason::kStop, events);
  if (tokens.finish == Finish::kLength)
    decoder_->finish(EndReason::kLength, events);
  return std::optional<std::int64_t>{};
}

TokenLogprob shown_logprob(const LogprobEntry& entry) {
  return {.token = entry.token, .logprob = entry.logprob, .top = entry.top};
}

}  // namespace shoal
