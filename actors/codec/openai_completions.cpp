// Plain completions: text in, text out, with vLLM's extra fields where they are asked for.
#include "actors/codec/openai_completions.h"

#include <algorithm>
#include <limits>

#include "actors/codec/json_fields.h"
#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

// What OpenAI's API uses when the client names no limit.
constexpr int kDefaultMaxTokens = 16;

bool is_id_list(const JsonValue& value) {
  return value.is_array() && std::all_of(value.items.begin(),
                                         value.items.end(),
                                         [](const JsonValue& item) { return item.is_number(); });
}

Result<void> read_prompt_ids(const JsonValue& list, CompletionRequest& request) {
  request.prompt_is_ids = true;
  for (const JsonValue& item : list.items) {
    const auto id = as_integer(item);
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max())
      return wrong_type("prompt", "token ids", item);
    request.prompt_ids.push_back(static_cast<TokenId>(*id));
  }
  if (request.prompt_ids.empty())
    return bad_field("prompt", "the list of token ids is empty");
  return {};
}

Result<void> read_prompt(const JsonValue& body, CompletionRequest& request) {
  const JsonValue* prompt = given(body, "prompt");
  if (prompt == nullptr)
    return bad_field("prompt", "missing field `prompt`");
  // A list with one prompt is that prompt.
  const bool is_batch =
      prompt->is_array() && !prompt->items.empty() && !prompt->items.front().is_number();
  if (is_batch && prompt->items.size() > 1)
    return bad_field("prompt", "one prompt a request: send several requests instead");
  if (is_batch)
    prompt = &prompt->items.front();
  if (prompt->is_string()) {
    request.prompt = prompt->text;
    return {};
  }
  if (is_id_list(*prompt))
    return read_prompt_ids(*prompt, request);
  return wrong_type("prompt", "a string or a list of token ids", *prompt);
}

// More than the context holds is told with the length of the prompt, which is not known here.
Result<void> read_limits(const JsonValue& body, std::int64_t context, CompletionRequest& request) {
  TRY(const auto max_tokens, integer_field(body, "max_tokens"));
  if (max_tokens && (*max_tokens < 1 || *max_tokens > std::numeric_limits<int>::max())) {
    return bad_field("max_tokens", "expected an integer from 1 to " + std::to_string(context));
  }
  request.sampling.max_tokens = static_cast<int>(max_tokens.value_or(kDefaultMaxTokens));
  TRY(const auto logprobs, integer_field(body, "logprobs"));
  if (logprobs && (*logprobs < 0 || *logprobs > kMaxLogprobs)) {
    return bad_field("logprobs", "expected an integer from 0 to " + std::to_string(kMaxLogprobs));
  }
  request.sampling.logprobs = static_cast<int>(logprobs.value_or(-1));
  TRY(const auto choices, integer_field(body, "n"));
  if (choices && (*choices < 1 || *choices > kMaxChoices)) {
    return bad_field("n", "expected an integer from 1 to " + std::to_string(kMaxChoices));
  }
  request.choices = static_cast<int>(choices.value_or(1));
  TRY(const auto best_of, integer_field(body, "best_of"));
  if (best_of && *best_of != request.choices)
    return bad_field("best_of", "only the value of `n` is supported");
  return {};
}

Result<void> read_output(const JsonValue& body, CompletionRequest& request) {
  TRY(const auto echo, bool_field(body, "echo"));
  request.echo = echo.value_or(false);
  if (request.echo && request.sampling.logprobs >= 0) {
    return bad_field(
        "echo",
        "log probabilities of the prompt are not supported; leave out `echo` or `logprobs`");
  }
  TRY(const std::string* suffix, string_field(body, "suffix"));
  if (suffix != nullptr && !suffix->empty())
    return bad_field("suffix", "filling in the middle is not supported");
  TRY(const StreamFields fields, read_stream_fields(body));
  request.stream = fields.stream;
  request.include_usage = fields.include_usage;
  return {};
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void append_ids(std::string& out, std::span<const TokenId> ids) {
  out += '[';
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0)
      out += ',';
    append_json_int(out, ids[i]);
  }
  out += ']';
}

void append_top(std::string& out, const Tokenizer& tokenizer, TokenId token, float logprob) {
  append_json_string(out, token_label(tokenizer, token));
  out += ':';
  append_logprob(out, logprob);
}

// The most likely tokens and always the chosen one, so one more than asked for when it is not among
// them.
void append_tops(std::string& out, const Tokenizer& tokenizer, const TokenLogprob& entry) {
  bool has_chosen = false;
  out += '{';
  for (const auto& [token, logprob] : entry.top) {
    append_top(out, tokenizer, token, logprob);
    out += ',';
    has_chosen |= token == entry.token;
  }
  if (!has_chosen) {
    append_top(out, tokenizer, entry.token, entry.logprob);
  } else {
    out.pop_back();
  }
  out += '}';
}

void append_head(std::string& out, const AnswerInfo& info) {
  out += "{\"id\":";
  append_json_string(out, info.id);
  out += ",\"object\":\"text_completion\",\"created\":";
  append_json_int(out, info.created);
  out += ",\"model\":";
  append_json_string(out, info.model);
  out += ",\"choices\":[";
}

// "finish_reason" and vLLM's "stop_reason": the stop string or token, null for EOS.
std::string finish_members(EndReason reason, const StopCause& cause) {
  std::string out = "\"finish_reason\":";
  append_json_string(out, finish_reason_name(reason));
  out += ",\"stop_reason\":";
  if (!cause.text.empty()) {
    append_json_string(out, cause.text);
  } else if (cause.token >= 0) {
    append_json_int(out, cause.token);
  } else {
    out += "null";
  }
  return out;
}

}  // namespace

Result<CompletionRequest> read_completion_request(const JsonValue& body,
                                                  const Sampling& defaults,
                                                  std::int64_t context) {
  if (!body.is_object())
    return wrong_type("body", "an object", body);
  CompletionRequest request;
  TRY(const std::string* model, string_field(body, "model"));
  if (model == nullptr)
    return bad_field("model", "missing field `model`");
  request.model = *model;
  TRY_VOID(read_prompt(body, request));
  TRY(request.sampling, read_sampling(body, defaults));
  TRY_VOID(read_limits(body, context, request));
  TRY(request.stop, read_stop_strings(body));
  TRY_VOID(read_output(body, request));
  TRY(request.serving, read_serving_fields(body));
  return request;
}

// Where each token's text begins in the answer, by the text as it is shown: EOS has none, and bytes
// that are no text count as what stands for them. A token within a character begins where the
// character does.
std::vector<std::size_t> CompletionChoice::place(std::string_view text,
                                                 std::span<const TokenId> tokens) {
  std::vector<std::size_t> offsets;
  if (!shape_.logprobs)
    return offsets;
  if (tokens.empty())
    placed_chars_ += characters(text);
  for (const TokenId token : tokens) {
    offsets.push_back(placed_chars_);
    std::string shown;
    if (token != shape_.eos)
      carry_.push(shape_.tokenizer->bytes(token), shown);
    placed_chars_ += characters(shown);
  }
  return offsets;
}

void CompletionChoice::append_logprobs(const Piece& piece, std::string& out) const {
  if (!shape_.logprobs) {
    out += "null";
    return;
  }
  std::string tokens, values, tops, offsets;
  std::string_view separator;
  for (std::size_t i = 0; i < piece.logprobs.size(); ++i) {
    const TokenLogprob& entry = piece.logprobs[i];
    for (std::string* list : {&tokens, &values, &tops, &offsets})
      *list += separator;
    separator = ",";
    append_json_string(tokens, token_label(*shape_.tokenizer, entry.token));
    append_logprob(values, entry.logprob);
    append_json_int(offsets, static_cast<std::int64_t>(piece.offsets[i]));
    append_tops(tops, *shape_.tokenizer, entry);
  }
  out += "{\"tokens\":[" + tokens + "],\"token_logprobs\":[" + values + "],\"top_logprobs\":[" +
         tops + "],\"text_offset\":[" + offsets + "]}";
}

void CompletionChoice::append_choice(const Piece& piece,
                                     const std::string* finish,
                                     std::string& out) const {
  out += "{\"index\":";
  append_json_int(out, choice_);
  out += ",\"text\":";
  append_json_string(out, piece.text);
  out += ",\"logprobs\":";
  append_logprobs(piece, out);
  out += ',';
  out += finish != nullptr ? *finish : "\"finish_reason\":null,\"stop_reason\":null";
  if (shape_.return_token_ids) {
    if (piece.with_prompt_ids) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, shape_.prompt_ids);
    }
    out += ",\"token_ids\":";
    append_ids(out, piece.tokens);
  }
  out += '}';
}

void CompletionChoice::append_event(const Piece& piece,
                                    const std::string* finish,
                                    std::string& out) const {
  begin_event(out);
  append_head(out, shape_.info);
  append_choice(piece, finish, out);
  out += "],\"usage\":null}";
  end_event(out);
}

void CompletionChoice::append_chunk(std::string_view text,
                                    std::span<const TokenId> tokens,
                                    std::span<const TokenLogprob> logprobs,
                                    std::string& out) {
  const std::vector<std::size_t> offsets = place(text, tokens);
  append_event({text, tokens, logprobs, offsets, !began_}, nullptr, out);
  began_ = true;
}

void CompletionChoice::append_last_chunk(std::string_view text,
                                         EndReason reason,
                                         const StopCause& cause,
                                         std::string& out) {
  const std::string finish = finish_members(reason, cause);
  append_event({text, {}, {}, {}, !began_}, &finish, out);
  began_ = true;
}

void CompletionChoice::collect(std::string_view text,
                               std::span<const TokenId> tokens,
                               std::span<const TokenLogprob> logprobs) {
  text_ += text;
  const std::vector<std::size_t> offsets = place(text, tokens);
  offsets_.insert(offsets_.end(), offsets.begin(), offsets.end());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
}

void CompletionChoice::collect_end(std::string_view text,
                                   EndReason reason,
                                   const StopCause& cause) {
  text_ += text;
  // What a stop string took away is not in the text.
  const std::size_t end = characters(text_);
  for (std::size_t& offset : offsets_)
    offset = std::min(offset, end);
  finish_ = finish_members(reason, cause);
}

void CompletionChoice::append_collected(std::string& out) const {
  append_choice({text_, tokens_, logprobs_, offsets_, true}, &finish_, out);
}

void append_completion_usage_chunk(std::string& out, const AnswerInfo& info, const Usage& usage) {
  begin_event(out);
  append_head(out, info);
  out += "],\"usage\":";
  append_usage(out, usage);
  out += '}';
  end_event(out);
}

void append_completion(std::string& out,
                       const CompletionShape& shape,
                       std::span<const CompletionChoice> choices,
                       const Usage& usage) {
  append_head(out, shape.info);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0)
      out += ',';
    choices[i].append_collected(out);
  }
  out += "],\"usage\":";
  append_usage(out, usage);
  out += '}';
}

}  // namespace shoal
