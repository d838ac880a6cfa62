// Small pieces of JSON, appended without building anything.
#include "actors/codec/openai_shapes.h"

#include "actors/codec/json_writer.h"
#include "actors/codec/tokenizer_utf8.h"

namespace shoal {
namespace {

constexpr float kLogprobFloor = -9999.0F;

void append_token_fields(std::string& out,
                         const Tokenizer& tokenizer,
                         TokenId token,
                         float logprob) {
  out += "\"token\":";
  append_json_string(out, token_label(tokenizer, token));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":[";
  std::string_view separator;
  for (const char byte : tokenizer.bytes(token)) {
    out += separator;
    append_json_int(out, static_cast<unsigned char>(byte));
    separator = ",";
  }
  out += ']';
}

void append_text_or_null(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

}  // namespace

std::string_view finish_reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kToolCalls:
      return "tool_calls";
    case EndReason::kContentFilter:
      return "content_filter";
    case EndReason::kAborted:
      return "aborted";
  }
  return "stop";
}

void append_usage(std::string& out, const Usage& usage) {
  const auto count = [&](std::string_view name, std::int64_t value) {
    out += name;
    append_json_int(out, value);
  };
  count("{\"prompt_tokens\":", usage.prompt_tokens);
  count(",\"completion_tokens\":", usage.completion_tokens);
  count(",\"total_tokens\":", usage.prompt_tokens + usage.completion_tokens);
  count(",\"prompt_tokens_details\":{\"cached_tokens\":", usage.cached_tokens);
  if (usage.has_reasoning)
    count("},\"completion_tokens_details\":{\"reasoning_tokens\":", usage.reasoning_tokens);
  count("},\"prompt_cache_hit_tokens\":", usage.cached_tokens);
  count(",\"prompt_cache_miss_tokens\":", usage.prompt_tokens - usage.cached_tokens);
  out += '}';
}

std::string token_label(const Tokenizer& tokenizer, TokenId id) {
  static constexpr char kHex[] = "0123456789abcdef";
  const std::string_view bytes = tokenizer.bytes(id);
  if (replace_malformed_utf8(bytes) == bytes)
    return std::string(bytes);
  std::string label;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      label += c;
      continue;
    }
    label += "\\x";
    label += kHex[byte >> 4];
    label += kHex[byte & 15];
  }
  return label;
}

void append_logprob(std::string& out, float logprob) {
  // Negated so that a NaN is caught as well.
  if (!(logprob > kLogprobFloor)) {
    out += "-9999.0";
  } else {
    append_json_float(out, logprob);
  }
}

void append_chat_logprobs(std::string& out,
                          const Tokenizer& tokenizer,
                          std::span<const TokenLogprob* const> entries) {
  out += '[';
  std::string_view separator;
  for (const TokenLogprob* entry : entries) {
    out += separator;
    separator = ",";
    out += '{';
    append_token_fields(out, tokenizer, entry->token, entry->logprob);
    out += ",\"top_logprobs\":[";
    std::string_view top_separator;
    for (const auto& [token, logprob] : entry->top) {
      out += top_separator;
      top_separator = ",";
      out += '{';
      append_token_fields(out, tokenizer, token, logprob);
      out += '}';
    }
    out += "]}";
  }
  out += ']';
}

std::string error_body(const ErrorShape& error) {
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, replace_malformed_utf8(error.message));
  out += ",\"type\":";
  append_json_string(out, error.type);
  out += ",\"param\":";
  append_text_or_null(out, error.param);
  out += ",\"code\":";
  append_text_or_null(out, error.code);
  out += "}}";
  return out;
}

}  // namespace shoal
