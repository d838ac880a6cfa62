// Checks that every body shares, and the two routes that need no model: tokenize and detokenize.
#include "actors/http_bodies.h"

#include <algorithm>
#include <charconv>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/json_fields.h"
#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

void append_ids(std::string& out, std::span<const TokenId> ids) {
  out += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0)
      out += ',';
    append_json_int(out, ids[i]);
  }
  out += ']';
}

void append_pieces(std::string& out, const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  out += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0)
      out += ',';
    append_json_string(out, replace_malformed_utf8(tokenizer.bytes(ids[i])));
  }
  out += ']';
}

std::string shown(double number) {
  char buffer[48];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return {buffer, end};
}

BasisMode basis_mode(const ServingFields& serving, BasisMode default_mode) {
  switch (serving.replay) {
    case ReplayMode::kExact:
      return BasisMode::kExact;
    case ReplayMode::kBounded:
      return BasisMode::kBounded;
    case ReplayMode::kDefault:
      return default_mode;
  }
  return default_mode;
}

TtlClass ttl_class(CacheClass asked) {
  return asked == CacheClass::kAgent ? TtlClass::kAgent : TtlClass::kChat;
}

// kInvalid names both numbers. max_tokens 0 becomes the default, capped to the context left.
Result<void> fit_context(std::int64_t prompt_tokens,
                         int default_max_tokens,
                         const ServedModel& model,
                         Sampling& sampling) {
  const std::string maximum =
      "This model's maximum context length is " + std::to_string(model.context_tokens) + " tokens.";
  if (prompt_tokens == 0)
    return field_error("prompt", "the prompt is empty; send at least one token");
  const std::int64_t left = model.context_tokens - prompt_tokens;
  if (left <= 0) {
    return fail(Code::kInvalid,
                maximum + " However, your prompt has " + std::to_string(prompt_tokens) +
                    " tokens, which leaves none for the answer. Please shorten the prompt.");
  }
  if (sampling.max_tokens == 0)
    sampling.max_tokens = static_cast<int>(std::min<std::int64_t>(default_max_tokens, left));
  if (sampling.max_tokens <= left)
    return {};
  return field_error("max_tokens",
                     maximum + " However, you requested " +
                         std::to_string(prompt_tokens + sampling.max_tokens) + " tokens (" +
                         std::to_string(prompt_tokens) + " in the prompt, " +
                         std::to_string(sampling.max_tokens) +
                         " for the answer). Please shorten the prompt or lower max_tokens.");
}

Result<void> check_in_vocabulary(std::string_view field,
                                 std::span<const TokenId> ids,
                                 const ServedModel& model) {
  const auto bad = std::ranges::find_if(
      ids, [&model](TokenId id) { return id < 0 || id >= model.vocabulary_size; });
  if (bad == ids.end())
    return {};
  return field_error(field,
                     "token id " + std::to_string(*bad) + " at index " +
                         std::to_string(bad - ids.begin()) + " of " + std::string(field) +
                         " is outside the vocabulary; ids go from 0 to " +
                         std::to_string(model.vocabulary_size - 1));
}

Result<std::vector<TokenId>> ids_of_text_or_messages(const JsonValue& body,
                                                     const ServedModel& model) {
  TRY(const auto prompt, string_field(body, "prompt"));
  if (prompt)
    return model.tokenizer->encode_parsed(*prompt);
  if (given(body, "messages") == nullptr)
    return bad_field("prompt", "give a text here, or messages");
  TRY(const auto chat, read_chat_request(body, *model.profile));
  return encode_prompt(*model.tokenizer, render_chat(chat, *model.profile));
}

std::vector<TokenId> ids_of(const std::vector<std::pair<TokenId, float>>& biases) {
  std::vector<TokenId> ids;
  for (const auto& [id, bias] : biases) {
    ids.push_back(id);
  }
  return ids;
}

// At the beginning of a word and behind a space: other tokens.
std::vector<std::vector<TokenId>> bad_word_tokens(const std::vector<std::string>& words,
                                                  const Tokenizer& tokenizer) {
  std::vector<std::vector<TokenId>> tokens;
  for (const std::string& word : words) {
    tokens.push_back(tokenizer.encode(word));
    tokens.push_back(tokenizer.encode(" " + word));
  }
  return tokens;
}

}  // namespace

Result<void> check_model(const std::string& name, const ServedModel& model) {
  if (std::ranges::find(model.names, name) != model.names.end())
    return {};
  std::string existing;
  for (const std::string& known : model.names)
    existing.append(existing.empty() ? "" : ", ").append("`" + known + "`");
  return tl::unexpected(Error{
      Code::kNotFound, "the model `" + name + "` does not exist; there is " + existing, "model"});
}

Result<AnswerPlan> make_plan(std::vector<TokenId> prompt,
                             const Sampling& sampling,
                             const ServingFields& serving,
                             int default_max_tokens,
                             const BodyContext& context) {
  AnswerPlan plan;
  plan.sampling = sampling;
  TRY_VOID(check_in_vocabulary("stop_token_ids", sampling.stop_token_ids, context.model));
  TRY_VOID(check_in_vocabulary("logit_bias", ids_of(sampling.logit_bias), context.model));
  plan.sampling.bad_words = bad_word_tokens(serving.bad_words, *context.model.tokenizer);
  TRY_VOID(fit_context(std::ssize(prompt), default_max_tokens, context.model, plan.sampling));
  if (plan.sampling.min_tokens > plan.sampling.max_tokens) {
    return bad_field("min_tokens",
                     std::to_string(plan.sampling.min_tokens) +
                         " is more than max_tokens, which is " +
                         std::to_string(plan.sampling.max_tokens));
  }
  plan.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
  plan.mode = basis_mode(serving, context.default_mode);
  plan.ttl = ttl_class(serving.cache_class);
  plan.names_ttl = serving.cache_class != CacheClass::kDefault;
  if (serving.timeout_s > 0) {
    if (const auto fault = timeout_fault(serving.timeout_s, context.longest_timeout);
        !fault.empty())
      return bad_field("timeout", fault);
    plan.timeout = nanos_of(serving.timeout_s);
  }
  return plan;
}

Result<void> check_prompt_ids(std::span<const TokenId> ids, const ServedModel& model) {
  TRY_VOID(check_in_vocabulary("prompt", ids, model));
  if (!model.profile->reads_images)
    return {};
  const auto image = std::ranges::find(ids, model.profile->image.id);
  if (image == ids.end())
    return {};
  return field_error("prompt",
                     "token id " + std::to_string(*image) + " at index " +
                         std::to_string(image - ids.begin()) +
                         " of prompt stands for an image; images are not read by this server, "
                         "send text only");
}

std::string timeout_fault(double seconds, Nanos longest) {
  const std::chrono::duration<double> most = longest;
  if (seconds <= most.count())
    return {};
  return shown(seconds) + " seconds are more than this server allows; the most are " +
         shown(most.count());
}

Nanos nanos_of(double seconds) {
  return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
}

Result<Prepared> tokenize_reply(const JsonValue& body, const BodyContext& context) {
  TRY(const auto ids, ids_of_text_or_messages(body, context.model));
  TRY(const auto with_pieces, bool_field(body, "return_token_strs"));
  HttpReply reply;
  reply.body = R"({"count":)";
  append_json_int(reply.body, static_cast<std::int64_t>(ids.size()));
  reply.body += R"(,"max_model_len":)";
  append_json_int(reply.body, context.model.context_tokens);
  reply.body += R"(,"tokens":)";
  append_ids(reply.body, ids);
  reply.body += R"(,"token_strs":)";
  if (with_pieces.value_or(false)) {
    append_pieces(reply.body, *context.model.tokenizer, ids);
  } else {
    reply.body += "null";
  }
  reply.body += '}';
  return reply;
}

Result<Prepared> detokenize_reply(const JsonValue& body, const BodyContext& context) {
  const JsonValue* list = given(body, "tokens");
  if (list == nullptr || !list->is_array())
    return bad_field("tokens", "a list of token ids is needed");
  std::vector<TokenId> ids;
  ids.reserve(list->items.size());
  for (const JsonValue& item : list->items) {
    const auto id = item.is_number() ? as_integer(item) : std::nullopt;
    if (!id || *id < 0 || *id >= context.model.vocabulary_size) {
      return bad_field(
          "tokens[" + std::to_string(ids.size()) + "]",
          "expected a token id from 0 to " + std::to_string(context.model.vocabulary_size - 1));
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  HttpReply reply;
  reply.body = R"({"prompt":)";
  append_json_string(reply.body,
                     replace_malformed_utf8(decode_bytes(*context.model.tokenizer, ids)));
  reply.body += '}';
  return reply;
}

}  // namespace shoal
