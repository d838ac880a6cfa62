// POST /v1/completions: the prompt as it stands, the answer as text in which only stop strings are
// looked for.
#include <algorithm>
#include <utility>
#include <vector>

#include "actors/codec/json_fields.h"
#include "actors/codec/openai_completions.h"
#include "actors/http_bodies.h"
#include "actors/http_choice.h"

namespace shoal {
namespace {

constexpr int kDefaultMaxTokens = 16;  // OpenAI's

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(CompletionRequest request,
                   CompletionShape shape,
                   std::string echoed,
                   const ServedModel& model);

  Result<std::optional<std::int64_t>> add(const ChoiceTokens& tokens, std::string& events) override;
  void finish(std::uint32_t choice, std::int64_t cached_tokens, std::string& events) override;
  void end(std::string& out) override;

 private:
  void show(CompletionChoice& choice,
            std::string_view text,
            const ChoiceTokens& tokens,
            std::string& events);
  void show_end(CompletionChoice& choice,
                std::string_view text,
                const StreamEvent& end,
                TokenId stop_token,
                std::string& events);

  CompletionRequest request_;
  CompletionShape shape_;  // the choices point to it
  std::string echoed_;     // what every choice begins with
  std::vector<HttpChoice> decoders_;
  std::vector<CompletionChoice> choices_;
  TokenId eos_;
  Usage usage_;
};

DecoderSetup plain_setup(const CompletionRequest& request) {
  DecoderSetup setup;
  setup.start = StartState::kContentContinued;
  setup.markup = false;
  setup.keep_eos = request.sampling.ignore_eos;
  setup.stop = request.stop;
  return setup;
}

CompletionFormat::CompletionFormat(CompletionRequest request,
                                   CompletionShape shape,
                                   std::string echoed,
                                   const ServedModel& model)
    : request_(std::move(request)),
      shape_(std::move(shape)),
      echoed_(std::move(echoed)),
      eos_(model.profile->eos.id) {
  usage_.prompt_tokens = std::ssize(shape_.prompt_ids);
  for (int i = 0; i < request_.choices; ++i) {
    decoders_.emplace_back(model, plain_setup(request_));
    choices_.emplace_back(shape_, i);
  }
}

Result<std::optional<std::int64_t>> CompletionFormat::add(const ChoiceTokens& tokens,
                                                          std::string& events) {
  HttpChoice& decoder = decoders_[tokens.choice];
  CompletionChoice& choice = choices_[tokens.choice];
  const std::size_t before = decoder.completion_tokens();
  std::vector<StreamEvent> decoded;
  TRY(const auto counted, decoder.add(tokens, decoded));
  if (before == 0 && !echoed_.empty())
    show(choice, echoed_, {}, events);

  // Tokens behind a stop string are not part of the answer.
  const std::size_t shown = decoder.completion_tokens() - before;
  ChoiceTokens part = tokens;
  part.tokens = tokens.tokens.first(shown);
  part.logprobs = tokens.logprobs.first(std::min(shown, tokens.logprobs.size()));
  std::string text;
  for (const StreamEvent& event : decoded)
    text += event.text;
  const bool has_ended = !decoded.empty() && decoded.back().kind == StreamEvent::Kind::kEnd;
  const bool tells_tokens = shape_.logprobs || shape_.return_token_ids;
  if (tells_tokens || (!has_ended && !text.empty())) {
    show(choice, text, part, events);
    text.clear();
  }
  if (has_ended)
    show_end(choice, text, decoded.back(), tokens.stop_token, events);
  return counted;
}

void CompletionFormat::show(CompletionChoice& choice,
                            std::string_view text,
                            const ChoiceTokens& tokens,
                            std::string& events) {
  std::vector<TokenLogprob> logprobs;
  std::ranges::transform(tokens.logprobs, std::back_inserter(logprobs), shown_logprob);
  if (request_.stream) {
    choice.append_chunk(text, tokens.tokens, logprobs, events);
  } else {
    choice.collect(text, tokens.tokens, logprobs);
  }
}

void CompletionFormat::show_end(CompletionChoice& choice,
                                std::string_view text,
                                const StreamEvent& end,
                                TokenId stop_token,
                                std::string& events) {
  StopCause cause;
  if (end.stop_string >= 0)
    cause.text = request_.stop[static_cast<std::size_t>(end.stop_string)];
  else if (stop_token != eos_)
    cause.token = stop_token;
  if (request_.stream) {
    choice.append_last_chunk(text, end.reason, cause, events);
  } else {
    choice.collect_end(text, end.reason, cause);
  }
}

void CompletionFormat::finish(std::uint32_t choice, std::int64_t cached_tokens, std::string&) {
  usage_.completion_tokens += decoders_[choice].completion_tokens();
  usage_.cached_tokens = std::max(usage_.cached_tokens, cached_tokens);
}

void CompletionFormat::end(std::string& out) {
  if (!request_.stream)
    return append_completion(out, shape_, choices_, usage_);
  if (request_.include_usage)
    append_completion_usage_chunk(out, shape_.info, usage_);
  append_done_event(out);
}

}  // namespace

Result<Prepared> prepare_completion(const JsonValue& body, const BodyContext& context) {
  const ServedModel& model = context.model;
  TRY(CompletionRequest request,
      read_completion_request(body, model.sampling, model.context_tokens));
  // As it stands also means with its control tokens: whoever writes whole prompts writes those too.
  std::vector<TokenId> prompt = request.prompt_is_ids
                                    ? std::move(request.prompt_ids)
                                    : model.tokenizer->encode_parsed(request.prompt);
  TRY_VOID(check_prompt_ids(prompt, model));
  if (given(body, "max_tokens") == nullptr)
    request.sampling.max_tokens = 0;
  const std::string id = "cmpl-" + context.stamp.id;
  CompletionShape shape{.info = {.id = id,
                                 .created = context.stamp.created,
                                 .model = request.model,
                                 .fingerprint = ""},
                        .tokenizer = model.tokenizer.get(),
                        .logprobs = request.sampling.logprobs >= 0,
                        .return_token_ids = request.serving.return_token_ids,
                        .prompt_ids = prompt,
                        .eos = model.profile->eos.id};
  std::string echoed;
  if (request.echo)
    echoed = replace_malformed_utf8(decode_bytes(*model.tokenizer, prompt));
  TRY(AnswerPlan plan,
      make_plan(std::move(prompt), request.sampling, request.serving, kDefaultMaxTokens, context));
  plan.id = id;
  plan.choices = static_cast<std::uint32_t>(request.choices);
  plan.stream = request.stream;
  plan.format = std::make_unique<CompletionFormat>(
      std::move(request), std::move(shape), std::move(echoed), model);
  return plan;
}

}  // namespace shoal
