// POST /v1/chat/completions: messages to a prompt, tokens to reasoning, content and tool calls.
#include <algorithm>
#include <utility>
#include <vector>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/chat_request.h"
#include "actors/codec/json_fields.h"
#include "actors/codec/openai_chat.h"
#include "actors/http_bodies.h"
#include "actors/http_choice.h"

namespace shoal {
namespace {

constexpr const char* kChatPrefix = "chatcmpl-";

struct ChatOutput {
  bool stream = false;
  int choices = 1;
  bool thinking = false;
  std::int64_t prompt_tokens = 0;
};

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(const ChatOutput& output,
             const std::vector<ChatShape>& shapes,
             const DecoderSetup& setup,
             const ServedModel& model);

  Result<std::optional<std::int64_t>> add(const ChoiceTokens& tokens, std::string& events) override;
  void finish(std::uint32_t choice, std::int64_t cached_tokens, std::string& events) override;
  void end(std::string& out) override;

 private:
  struct Choice {
    HttpChoice decoder;
    ChatChunks chunks;
    std::vector<TokenLogprob> logprobs{};  // of all its tokens so far: events point into them
    bool began = false;
    EndReason reason = EndReason::kStop;
  };

  void show(Choice& choice, ChatChoice& whole, const StreamEvent& event, std::string& events);

  ChatOutput output_;
  std::vector<Choice> choices_;
  std::vector<ChatChoice> wholes_;
  std::size_t unfinished_;
  Usage usage_;
};

ChatFormat::ChatFormat(const ChatOutput& output,
                       const std::vector<ChatShape>& shapes,
                       const DecoderSetup& setup,
                       const ServedModel& model)
    : output_(output),
      unfinished_(shapes.size()) {
  usage_.prompt_tokens = output.prompt_tokens;
  usage_.has_reasoning = output.thinking;
  for (const ChatShape& shape : shapes) {
    choices_.push_back({.decoder = HttpChoice(model, setup),
                        .chunks = ChatChunks(shape, static_cast<int>(choices_.size()))});
    wholes_.emplace_back(shape);
  }
}

Result<std::optional<std::int64_t>> ChatFormat::add(const ChoiceTokens& tokens,
                                                    std::string& events) {
  Choice& choice = choices_[tokens.choice];
  std::ranges::transform(tokens.logprobs, std::back_inserter(choice.logprobs), shown_logprob);
  std::vector<StreamEvent> decoded;
  TRY(const auto counted, choice.decoder.add(tokens, decoded));
  if (output_.stream && !std::exchange(choice.began, true))
    choice.chunks.begin(events);
  for (const StreamEvent& event : decoded)
    show(choice, wholes_[tokens.choice], event, events);
  return counted;
}

void ChatFormat::show(Choice& choice,
                      ChatChoice& whole,
                      const StreamEvent& event,
                      std::string& events) {
  if (!output_.stream)
    return whole.add(event, choice.logprobs);
  if (event.kind == StreamEvent::Kind::kEnd) {
    choice.reason = event.reason;  // sent with the usage, see finish()
  } else {
    choice.chunks.event(event, choice.logprobs, events);
  }
}

void ChatFormat::finish(std::uint32_t choice, std::int64_t cached_tokens, std::string& events) {
  const HttpChoice& decoder = choices_[choice].decoder;
  usage_.completion_tokens += decoder.completion_tokens();
  usage_.reasoning_tokens += decoder.reasoning_tokens();
  usage_.cached_tokens = std::max(usage_.cached_tokens, cached_tokens);
  --unfinished_;
  if (output_.stream) {
    const Usage* usage = unfinished_ == 0 ? &usage_ : nullptr;
    choices_[choice].chunks.end(choices_[choice].reason, usage, events);
  }
}

void ChatFormat::end(std::string& out) {
  if (output_.stream) {
    append_done_event(out);
  } else {
    append_chat_completion(out, wholes_, usage_);
  }
}

// Call ids must differ between choices: two digits of the letters drawn for the answer are theirs.
std::string call_suffix(const AnswerStamp& stamp, int choice) {
  std::string suffix = stamp.id;
  suffix[0] = static_cast<char>('0' + choice / 10);
  suffix[1] = static_cast<char>('0' + choice % 10);
  return suffix;
}

std::vector<ChatShape> shapes_of(const ChatRequest& request, const BodyContext& context) {
  std::vector<ChatShape> shapes;
  for (int choice = 0; choice < request.choices; ++choice) {
    shapes.push_back({.info = {.id = kChatPrefix + context.stamp.id,
                               .created = context.stamp.created,
                               .model = request.model,
                               .fingerprint = ""},
                      .thinking = request.thinking,
                      .call_suffix = call_suffix(context.stamp, choice),
                      .logprob_tokenizer = request.sampling.logprobs >= 0
                                               ? context.model.tokenizer.get()
                                               : nullptr});
  }
  return shapes;
}

}  // namespace

Result<Prepared> prepare_chat(const JsonValue& body, const BodyContext& context) {
  const ServedModel& model = context.model;
  // Clients are obeyed: temperature 0 is greedy, thinking or not.
  const ChatOptions options{.official_sampling = false, .sampling_defaults = model.sampling};
  TRY(const ChatRequest request, read_chat_request(body, *model.profile, options));
  const RenderedPrompt rendered = render_chat(request, *model.profile);
  if (!rendered.images.empty())
    return field_error("messages", "images are not read by this server; send text only");
  std::vector<TokenId> prompt = encode_prompt(*model.tokenizer, rendered);
  const ChatOutput output{.stream = request.stream,
                          .choices = request.choices,
                          .thinking = request.thinking,
                          .prompt_tokens = std::ssize(prompt)};
  const int most = default_max_tokens(*model.profile, request.thinking, request.effort);
  TRY(AnswerPlan plan,
      make_plan(std::move(prompt), request.sampling, request.serving, most, context));
  plan.id = kChatPrefix + context.stamp.id;
  plan.choices = static_cast<std::uint32_t>(request.choices);
  plan.stream = request.stream;
  if (request.serving.cache_class == CacheClass::kDefault && !request.tools.empty())
    plan.ttl = TtlClass::kAgent;
  plan.format =
      std::make_unique<ChatFormat>(output, shapes_of(request, context), rendered.parse, model);
  return plan;
}

}  // namespace shoal
