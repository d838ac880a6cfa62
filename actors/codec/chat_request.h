// A Chat Completions body as typed, checked values: what the renderer prints and the worker obeys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/codec/json_value.h"
#include "actors/codec/model_profile.h"
#include "actors/codec/sampling_fields.h"
#include "schemas/result.h"
#include "schemas/sampling.h"

namespace shoal {

enum class Role : std::uint8_t { kSystem, kUser, kAssistant, kTool, kReminder };

struct ImageSource {
  std::string url;  // data:, http: or https:
  bool is_inline = false;
  std::string detail = "high";
  std::string path;  // where the request names it, e.g. ".messages[0]"
};

struct ContentPart {
  std::string text;
  std::optional<ImageSource> image;  // then text is empty
};

struct PastCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the client sent it; not always JSON
};

struct Message {
  Role role = Role::kUser;
  std::vector<ContentPart> parts;  // a plain string is one part; an empty list is one empty part
  std::optional<std::string> reasoning;
  std::vector<PastCall> calls;
  std::string call_id;     // kTool: the call it answers
  bool is_prefix = false;  // the last message: the model goes on where it ends
};

struct ToolSpec {
  std::string name;
  std::string description;
  JsonValue parameters;  // an object, `{}` when the client gave none; normalised when strict
  bool strict = false;
};

enum class ToolChoice : std::uint8_t { kAuto, kNone, kForced };

struct ResponseFormat {
  enum class Kind : std::uint8_t { kText, kJsonObject, kJsonSchema, kRegex };
  Kind kind = Kind::kText;
  JsonValue schema;   // kJsonSchema
  std::string regex;  // kRegex
};

struct ChatRequest {
  std::string model;
  std::vector<Message> messages;
  std::vector<ToolSpec>
      tools;  // those to show: none with tool_choice none, one with a named choice
  ToolChoice tool_choice = ToolChoice::kAuto;
  ResponseFormat format;
  bool thinking = true;
  Effort effort;

  Sampling sampling;              // max_tokens 0: the client named none
  std::vector<std::string> stop;  // looked for in the visible answer only
  int choices = 1;
  bool stream = false;
  bool include_usage = false;
  ServingFields serving;
};

struct ChatOptions {
  // What the official program does where ours is better by choice: n other than 1, the developer
  // role, input_text, output_text and refusal parts, integer efforts, lone surrogates are refused;
  // max_completion_tokens is ignored; of a run of reminders only the first is shown; empty call ids
  // pass when they pair up; a wrong tool_choice is called tool_call.
  bool strict_official = false;
  // The API's own rule: temperature is 1 while thinking, top_p at least 0.95, and 1 without
  // thinking; a seed is not negative. Off: as asked.
  bool official_sampling = true;
  Sampling sampling_defaults{};  // what the client leaves out, unless official_sampling decides
  bool default_thinking = true;
  // A tool turn that is still open must bring its reasoning back; off: empty reasoning is filled
  // in.
  bool reject_missing_reasoning = false;
};

// Errors are kInvalid: the message is what the client reads.
Result<ChatRequest> read_chat_request(const JsonValue& body,
                                      const ModelProfile& profile,
                                      const ChatOptions& options = {});

// Parts of read_chat_request, one file each.
Result<std::vector<Message>> read_messages(const JsonValue& list, const ChatOptions& options);
Result<void> check_call_pairing(const std::vector<Message>& messages, const ChatOptions& options);
Result<std::vector<ToolSpec>> read_tools(const JsonValue& body);
// Sets the choice and leaves in `tools` those to show.
Result<ToolChoice> read_tool_choice(const JsonValue& body,
                                    std::vector<ToolSpec>& tools,
                                    const ChatOptions& options);

}  // namespace shoal
