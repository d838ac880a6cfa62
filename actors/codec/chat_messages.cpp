// Messages of a Chat body: roles, content parts, replayed calls, and which tool result answers
// which call.
#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "actors/codec/chat_request.h"
#include "actors/codec/json_fields.h"

namespace shoal {
namespace {

constexpr std::size_t kUrlBytesMax = 8'192;

std::string at_message(std::size_t index) {
  return "messages[" + std::to_string(index) + "]";
}

std::string path_of(std::size_t index) {
  return ".messages[" + std::to_string(index) + "]";
}

Result<Role> read_role(const JsonValue& message,
                       std::string_view where,
                       const ChatOptions& options) {
  TRY(const std::string* name, string_field(message, "role"));
  if (!name)
    return bad_field(where, "missing field `role`");
  if (*name == "system")
    return Role::kSystem;
  if (*name == "user")
    return Role::kUser;
  if (*name == "assistant")
    return Role::kAssistant;
  if (*name == "tool")
    return Role::kTool;
  if (*name == "latest_reminder")
    return Role::kReminder;
  if (*name == "developer" && !options.strict_official)
    return Role::kSystem;
  return bad_field(where,
                   "unknown role `" + *name +
                       "`, expected one of `system`, `developer`, `user`, `assistant`, `tool`, "
                       "`latest_reminder`");
}

Result<ImageSource> read_image(const JsonValue& part, std::size_t message_index) {
  const JsonValue* holder = given(part, "image_url");
  if (holder == nullptr || !holder->is_object())
    return bad_field(at_message(message_index), "image_url must be an object");
  ImageSource image;
  image.path = path_of(message_index);
  TRY(const std::string* url, string_field(*holder, "url"));
  if (!url)
    return bad_field(at_message(message_index), "image_url without `url`");
  TRY(const std::string* detail, string_field(*holder, "detail"));
  if (detail && *detail == "low")
    image.detail = *detail;
  image.url = *url;
  const std::string_view text = image.url;
  image.is_inline = text.starts_with("data:");
  if (image.is_inline) {
    const std::array<std::string_view, 4> kinds = {"png", "jpeg", "gif", "webp"};
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](std::string_view kind) {
      return text.substr(5).starts_with("image/" + std::string(kind) + ";base64,");
    });
    if (!known) {
      return field_error(
          at_message(message_index),
          image.path +
              ": You have uploaded an unsupported image. Please make sure your image is valid and "
              "has one of the following formats: webp, png, jpeg, and gif.");
    }
  } else if ((!text.starts_with("http://") && !text.starts_with("https://")) ||
             text.size() > kUrlBytesMax) {
    return field_error(at_message(message_index), image.path + ": Unsupported image_url format");
  }
  return image;
}

Result<ContentPart> read_part(const JsonValue& part,
                              std::size_t message_index,
                              const ChatOptions& options) {
  const std::string where = at_message(message_index) + ".content";
  if (!part.is_object())
    return wrong_type(where, "a list of content parts", part);
  TRY(const std::string* type, string_field(part, "type"));
  if (!type)
    return bad_field(where, "missing field `type`");
  ContentPart out;
  if (*type == "image_url") {
    TRY(out.image, read_image(part, message_index));
    return out;
  }
  if (*type == "file")
    return field_error(at_message(message_index),
                       path_of(message_index) + ": file must have a file_id or file_data");
  const bool other_text = *type == "input_text" || *type == "output_text" || *type == "refusal";
  if (*type != "text" && (!other_text || options.strict_official)) {
    return bad_field(
        where, "unknown part type `" + *type + "`, expected one of `text`, `image_url`, `file`");
  }
  const std::string_view member = *type == "refusal" ? "refusal" : "text";
  TRY(const std::string* text, string_field(part, member));
  if (!text)
    return bad_field(where, "a part of type `" + *type + "` needs `" + std::string(member) + "`");
  out.text = *text;
  return out;
}

// Nothing when the content is absent or null.
Result<std::optional<std::vector<ContentPart>>> read_content(const JsonValue& message,
                                                             std::size_t index,
                                                             const ChatOptions& options) {
  const JsonValue* content = given(message, "content");
  if (content == nullptr)
    return std::nullopt;
  std::vector<ContentPart> parts;
  if (content->is_string()) {
    parts.push_back({content->text, {}});
    return parts;
  }
  if (!content->is_array())
    return bad_field(at_message(index), "content should be a string or a list");
  for (const JsonValue& item : content->items) {
    TRY(ContentPart part, read_part(item, index, options));
    parts.push_back(std::move(part));
  }
  if (parts.empty())
    parts.emplace_back();
  return parts;
}

// Without its id a call cannot be told from the others that the tool messages answer.
Result<PastCall> read_past_call(const JsonValue& item, const std::string& where) {
  if (!item.is_object())
    return wrong_type(where, "an object", item);
  TRY(const std::string* id, string_field(item, "id"));
  if (!id)
    return bad_field(where + ".id", "missing; send the id that the call came with");
  const JsonValue* function = given(item, "function");
  if (function == nullptr || !function->is_object())
    return bad_field(where, "missing field `function`");
  TRY(const std::string* name, string_field(*function, "name"));
  TRY(const std::string* arguments, string_field(*function, "arguments"));
  if (!name || !arguments)
    return bad_field(where + ".function", "a call needs `name` and `arguments`");
  return PastCall{*id, *name, *arguments};
}

Result<void> read_assistant(const JsonValue& json,
                            std::size_t index,
                            bool has_content,
                            Message& message) {
  const std::string where = at_message(index) + ".tool_calls";
  TRY(const std::string* reasoning, string_field(json, "reasoning_content"));
  if (reasoning != nullptr)
    message.reasoning = *reasoning;
  TRY(const auto is_prefix, bool_field(json, "prefix"));
  message.is_prefix = is_prefix.value_or(false);
  if (const JsonValue* calls = given(json, "tool_calls")) {
    if (!calls->is_array())
      return wrong_type(where, "a list", *calls);
    if (calls->items.empty()) {
      return field_error(where,
                         "Invalid '" + where +
                             "': empty array. Expected an array with minimum length 1, but got an "
                             "empty array instead.");
    }
    for (std::size_t i = 0; i < calls->items.size(); ++i) {
      TRY(PastCall call,
          read_past_call(calls->items[i], where + "[" + std::to_string(i) + "]"));
      message.calls.push_back(std::move(call));
    }
  }
  if (!has_content && message.calls.empty()) {
    return field_error(at_message(index),
                       "Invalid assistant message: content or tool_calls must be set");
  }
  for (const ContentPart& part : message.parts) {
    if (part.image)
      return field_error(at_message(index), "Image in assistant message is not supported");
  }
  return {};
}

Result<Message> read_message(const JsonValue& json, std::size_t index, const ChatOptions& options) {
  const std::string where = at_message(index);
  if (!json.is_object())
    return wrong_type(where, "an object", json);
  Message message;
  TRY(message.role, read_role(json, where, options));
  TRY(auto content, read_content(json, index, options));
  const bool has_content = content.has_value();
  if (content)
    message.parts = std::move(*content);
  if (message.role == Role::kAssistant) {
    TRY_VOID(read_assistant(json, index, has_content, message));
    return message;
  }
  if (!has_content)
    return bad_field(where, "missing field `content`");
  if (message.role == Role::kReminder && !json.find("content")->is_string()) {
    return bad_field(where, "the content of a latest_reminder must be a string");
  }
  if (message.role == Role::kTool) {
    TRY(const std::string* id, string_field(json, "tool_call_id"));
    if (!id)
      return bad_field(where, "missing field `tool_call_id`");
    if (id->empty() && !options.strict_official)
      return bad_field(where, "`tool_call_id` is empty");
    message.call_id = *id;
  }
  return message;
}

constexpr std::string_view kMustBeAnswered =
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'";

std::string joined(const std::vector<std::string>& ids) {
  std::string out;
  for (const std::string& id : ids) {
    if (!out.empty())
      out += ", ";
    out += id;
  }
  return out;
}

// The results in [first, end) must answer each call of `assistant` once.
Result<void> check_results(const std::vector<Message>& messages,
                           const Message& assistant,
                           std::size_t first,
                           std::size_t end,
                           const ChatOptions& options) {
  // Sets, because a hostile body may hold a hundred thousand calls.
  std::unordered_set<std::string_view> called;
  for (const PastCall& call : assistant.calls)
    called.insert(call.id);
  std::unordered_set<std::string_view> seen;
  std::vector<std::string> unknown;
  for (std::size_t i = first; i < end; ++i) {
    const std::string& id = messages[i].call_id;
    if (!seen.insert(id).second) {
      return field_error(
          at_message(i) + ".tool_call_id",
          "Duplicate value for 'tool_call_id' of " + id + " in message[" + std::to_string(i) + "]");
    }
    if (!called.contains(id))
      unknown.push_back(id);
  }
  std::vector<std::string> missing;
  for (const PastCall& call : assistant.calls) {
    if (!seen.contains(call.id))
      missing.push_back(call.id);
  }
  if (end - first < assistant.calls.size()) {
    std::string message = std::string(kMustBeAnswered) +
                          ". (insufficient tool messages following tool_calls message)";
    if (!options.strict_official)
      message += " Without a response: " + joined(missing);
    return field_error("messages", std::move(message));
  }
  if (missing.empty() && unknown.empty())
    return {};
  return field_error("messages",
                     std::string(kMustBeAnswered) +
                         ", The following tool_call_ids did not have response messages: " +
                         joined(options.strict_official ? unknown : missing));
}

}  // namespace

Result<std::vector<Message>> read_messages(const JsonValue& list, const ChatOptions& options) {
  if (!list.is_array())
    return wrong_type("messages", "a list", list);
  if (list.items.empty())
    return field_error("messages", "Empty input messages");
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    TRY(Message message, read_message(list.items[i], i, options));
    messages.push_back(std::move(message));
  }
  return messages;
}

Result<void> check_call_pairing(const std::vector<Message>& messages, const ChatOptions& options) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == Role::kTool) {
      return field_error(
          at_message(i),
          "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'");
    }
    if (messages[i].calls.empty())
      continue;
    std::size_t end = i + 1;
    while (end < messages.size() && messages[end].role == Role::kTool)
      ++end;
    TRY_VOID(check_results(messages, messages[i], i + 1, end, options));
    i = end - 1;
  }
  return {};
}

}  // namespace shoal
