// The order of checks of a Chat body, and the fields that are neither messages, tools nor plain
// sampling.
#include "actors/codec/chat_request.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "actors/codec/json_fields.h"

namespace shoal {
namespace {

// Absent: off ("none").
Result<std::optional<Effort>> read_effort_name(const std::string& name) {
  if (name == "none")
    return std::nullopt;
  if (name == "minimal" || name == "low")
    return Effort{EffortLevel::kLow, 0};
  if (name == "medium" || name == "high" || name == "xhigh")
    return Effort{EffortLevel::kHigh, 0};
  if (name == "max" || name == "ultra")
    return Effort{EffortLevel::kMax, 0};
  return bad_field("reasoning_effort",
                   "unknown value `" + name +
                       "`, expected one of `none`, `minimal`, `low`, `medium`, `high`, "
                       "`xhigh`, `ultra`, `max`");
}

// An integer 1..100 is ours; generations without numbers use the level nearest above it.
Result<Effort> read_effort_number(const JsonValue& value, const ModelProfile& profile) {
  const auto number = as_integer(value);
  if (!number || *number < 1 || *number > 100)
    return wrong_type("reasoning_effort", "a name or an integer from 1 to 100", value);
  const EffortLevel level = *number <= 50   ? EffortLevel::kLow
                            : *number <= 75 ? EffortLevel::kHigh
                                            : EffortLevel::kMax;
  return Effort{level, profile.effort_head.empty() ? 0 : static_cast<int>(*number)};
}

Result<void> read_effort(const JsonValue& body,
                         const ModelProfile& profile,
                         const ChatOptions& options,
                         ChatRequest& request) {
  const JsonValue* value = given(body, "reasoning_effort");
  if (value == nullptr)
    return {};
  if (value->is_number() && !options.strict_official) {
    TRY(request.effort, read_effort_number(*value, profile));
    request.thinking = true;
    return {};
  }
  if (!value->is_string())
    return wrong_type("reasoning_effort", "a string", *value);
  TRY(const auto effort, read_effort_name(value->text));
  request.thinking = effort.has_value();
  if (effort)
    request.effort = *effort;
  return {};
}

// thinking.type has the last word over the effort.
Result<void> read_thinking(const JsonValue& body,
                           const ModelProfile& profile,
                           const ChatOptions& options,
                           ChatRequest& request) {
  request.thinking = options.default_thinking;
  TRY_VOID(read_effort(body, profile, options, request));
  const JsonValue* thinking = given(body, "thinking");
  if (thinking == nullptr)
    return {};
  if (!thinking->is_object())
    return wrong_type("thinking", "an object", *thinking);
  TRY(const std::string* type, string_field(*thinking, "type"));
  if (!type || (*type != "enabled" && *type != "disabled" && *type != "adaptive")) {
    return bad_field("thinking.type", "expected one of `adaptive`, `enabled`, `disabled`");
  }
  if (*type == "disabled")
    request.thinking = false;
  if (*type == "enabled")
    request.thinking = true;
  return {};
}

Result<ResponseFormat> read_format(const JsonValue& body) {
  ResponseFormat format;
  const JsonValue* json = given(body, "response_format");
  if (json == nullptr)
    return format;
  if (!json->is_object())
    return wrong_type("response_format", "an object", *json);
  TRY(const std::string* type, string_field(*json, "type"));
  if (type && *type == "text")
    return format;
  if (type && *type == "json_object") {
    format.kind = ResponseFormat::Kind::kJsonObject;
  } else if (type && *type == "json_schema") {
    const JsonValue* holder = given(*json, "json_schema");
    if (holder == nullptr || !holder->is_object())
      return bad_field("response_format", "missing field `json_schema`");
    const JsonValue* schema = given(*holder, "schema");
    if (schema == nullptr || !schema->is_object())
      return bad_field("response_format.json_schema", "missing field `schema`");
    format.kind = ResponseFormat::Kind::kJsonSchema;
    format.schema = *schema;
  } else if (type && *type == "regex") {
    TRY(const std::string* regex, string_field(*json, "regex"));
    if (!regex)
      return bad_field("response_format", "missing field `regex`");
    format.kind = ResponseFormat::Kind::kRegex;
    format.regex = *regex;
  } else {
    return bad_field("response_format.type",
                     "expected one of `json_object`, `json_schema`, `regex`, `text`");
  }
  return format;
}

bool says_json(const std::vector<Message>& messages) {
  constexpr std::string_view kWord = "json";
  const auto same_letter = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  };
  for (const Message& message : messages) {
    for (const ContentPart& part : message.parts) {
      if (std::search(
              part.text.begin(), part.text.end(), kWord.begin(), kWord.end(), same_letter) !=
          part.text.end())
        return true;
    }
  }
  return false;
}

Result<void> read_max_tokens(const JsonValue& body,
                             const ModelProfile& profile,
                             const ChatOptions& options,
                             Sampling& sampling) {
  TRY(auto max_tokens, integer_field(body, "max_tokens"));
  if (!max_tokens && !options.strict_official) {
    TRY(max_tokens, integer_field(body, "max_completion_tokens"));
  }
  if (!max_tokens)
    return {};
  if (*max_tokens < 1 || *max_tokens > profile.max_tokens_limit) {
    return field_error("max_tokens",
                       "Invalid max_tokens value, the valid range of max_tokens is [1, " +
                           std::to_string(profile.max_tokens_limit) + "]");
  }
  sampling.max_tokens = static_cast<int>(*max_tokens);
  return {};
}

Result<void> read_logprobs(const JsonValue& body, Sampling& sampling) {
  TRY(const auto wanted, bool_field(body, "logprobs"));
  TRY(const auto top, integer_field(body, "top_logprobs"));
  if (top && !wanted.value_or(false)) {
    return field_error("top_logprobs",
                       "Invalid top_logprobs and logprobs value, logprobs must be set to true if "
                       "top_logprobs is used.");
  }
  if (top && (*top < 0 || *top > kMaxLogprobs)) {
    return field_error("top_logprobs",
                       "Invalid top_logprobs value, the valid range of top_logprobs is [0, 20].");
  }
  if (wanted.value_or(false))
    sampling.logprobs = static_cast<int>(top.value_or(0));
  return {};
}

Result<void> apply_official_sampling(const JsonValue& body,
                                     const ModelProfile& profile,
                                     ChatRequest& request) {
  Sampling& sampling = request.sampling;
  const JsonValue* seed = given(body, "seed");
  if (seed != nullptr && seed->text.starts_with('-'))
    return wrong_type("seed", "an integer from 0 to 2^64 - 1", *seed);
  if (!request.thinking) {
    sampling.top_p = 1.0F;
    return {};
  }
  sampling.temperature = 1.0F;
  if (given(body, "top_p") == nullptr && !request.tools.empty()) {
    sampling.top_p = static_cast<float>(profile.top_p_default_thinking_with_tools);
  }
  sampling.top_p = std::max(sampling.top_p, 0.95F);
  return {};
}

Result<void> read_choices_and_stream(const JsonValue& body,
                                     const ChatOptions& options,
                                     ChatRequest& request) {
  TRY(const auto choices, integer_field(body, "n"));
  if (choices && options.strict_official && *choices != 1) {
    return field_error("n", "Invalid n value (currently only n = 1 is supported)");
  }
  if (choices && (*choices < 1 || *choices > kMaxChoices)) {
    return field_error(
        "n", "Invalid n value, the valid range of n is [1, " + std::to_string(kMaxChoices) + "]");
  }
  request.choices = static_cast<int>(choices.value_or(1));
  TRY(const StreamFields fields, read_stream_fields(body));
  request.stream = fields.stream;
  request.include_usage = fields.include_usage;
  return {};
}

Result<void> check_prefix(const ChatRequest& request) {
  const auto is_prefix = [](const Message& message) { return message.is_prefix; };
  const auto first = std::find_if(request.messages.begin(), request.messages.end(), is_prefix);
  if (first == request.messages.end())
    return {};
  if (first + 1 != request.messages.end()) {
    return field_error("messages",
                       "Invalid completion message: prefix set true with message which is not "
                       "final message or message role is not assistant");
  }
  if (!request.tools.empty())
    return field_error("tools", "Function call should not be used with prefix");
  if (request.format.kind == ResponseFormat::Kind::kJsonObject) {
    return field_error("response_format",
                       "response_format json_object should not be used with prefix");
  }
  return {};
}

// A tool turn is open while no user message follows it.
Result<void> check_reasoning(const ChatRequest& request) {
  for (auto message = request.messages.rbegin(); message != request.messages.rend(); ++message) {
    if (message->role == Role::kUser)
      return {};
    if (!message->calls.empty() && !message->reasoning) {
      return field_error(
          "messages",
          "The `reasoning_content` in the thinking mode must be passed back to the API.");
    }
  }
  return {};
}

Result<void> check_together(const ChatRequest& request,
                            const ModelProfile& profile,
                            const ChatOptions& options) {
  TRY_VOID(check_call_pairing(request.messages, options));
  TRY_VOID(check_prefix(request));
  if (request.thinking && request.tool_choice == ToolChoice::kForced) {
    return field_error("tool_choice", "Thinking mode does not support this tool_choice");
  }
  if (request.thinking && options.reject_missing_reasoning)
    TRY_VOID(check_reasoning(request));
  if (request.format.kind == ResponseFormat::Kind::kJsonObject && !says_json(request.messages)) {
    return field_error("messages",
                       "Prompt must contain the word 'json' in some form to use 'response_format' "
                       "of type 'json_object'.");
  }
  if (profile.reads_images || !profile.has_system_turns)
    return {};
  for (const Message& message : request.messages) {
    for (const ContentPart& part : message.parts) {
      if (part.image)
        return field_error("messages",
                           part.image->path + ": this model does not read images; send text only");
    }
  }
  return {};
}

}  // namespace

Result<ChatRequest> read_chat_request(const JsonValue& body,
                                      const ModelProfile& profile,
                                      const ChatOptions& options) {
  if (!body.is_object())
    return wrong_type("body", "an object", body);
  ChatRequest request;
  TRY(const std::string* model, string_field(body, "model"));
  if (!model)
    return bad_field("model", "missing field `model`");
  request.model = *model;
  const JsonValue* messages = given(body, "messages");
  if (messages == nullptr)
    return bad_field("messages", "missing field `messages`");
  TRY(request.messages, read_messages(*messages, options));
  TRY(request.tools, read_tools(body));
  TRY(request.tool_choice, read_tool_choice(body, request.tools, options));
  TRY_VOID(read_thinking(body, profile, options, request));
  TRY(request.format, read_format(body));
  TRY(request.sampling, read_sampling(body, options.sampling_defaults));
  TRY_VOID(read_max_tokens(body, profile, options, request.sampling));
  TRY_VOID(read_logprobs(body, request.sampling));
  TRY(request.stop, read_stop_strings(body));
  TRY_VOID(read_choices_and_stream(body, options, request));
  TRY(request.serving, read_serving_fields(body));
  if (options.official_sampling)
    TRY_VOID(apply_official_sampling(body, profile, request));
  TRY_VOID(check_together(request, profile, options));
  return request;
}

}  // namespace shoal
