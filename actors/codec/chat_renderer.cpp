// Nothing is escaped in this format: safety comes from who may write a control token, so each kind
// of text has its own append.
#include "actors/codec/chat_renderer.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>

#include "actors/codec/json_reader.h"
#include "actors/codec/json_writer.h"
#include "actors/codec/python_json.h"

namespace shoal {
namespace {

constexpr std::string_view kBlockSeparator = "\n\n";

// The prompt under construction.
class Prompt {
 public:
  explicit Prompt(RenderedPrompt& out) : out_(out) {}

  void control(const ControlToken& token) {
    const std::size_t first = out_.text.size();
    out_.text += token.spelling;
    out_.control.push_back({first, out_.text.size(), token.id});
  }

  // Text of clients and tools: never a control token, whatever it spells.
  void plain(std::string_view text) { out_.text += text; }

  // Text in which the given spellings are control tokens: the template's own, and grounding marks
  // of the assistant. One pass, whatever the text repeats.
  void with_controls(std::string_view text, std::span<const ControlToken> tokens) {
    std::string leads;
    for (const ControlToken& token : tokens)
      leads += token.spelling.front();
    std::size_t start = 0;
    for (std::size_t at = text.find_first_of(leads); at < text.size();
         at = text.find_first_of(leads, at)) {
      const auto token =
          std::find_if(tokens.begin(), tokens.end(), [&](const ControlToken& candidate) {
            return text.substr(at).starts_with(candidate.spelling);
          });
      if (token == tokens.end()) {
        ++at;
        continue;
      }
      plain(text.substr(start, at - start));
      control(*token);
      at += token->spelling.size();
      start = at;
    }
    plain(text.substr(start));
  }

  void image(const ImageSource& source, const ModelProfile& profile) {
    if (!profile.reads_images)
      return plain("[Unsupported Image]");
    control(profile.image);
    out_.images.push_back(source);
  }

 private:
  RenderedPrompt& out_;
};

class Renderer {
 public:
  Renderer(const ChatRequest& request,
           const ModelProfile& profile,
           const ChatOptions& options,
           RenderedPrompt& out)
      : request_(request),
        profile_(profile),
        options_(options),
        out_(out),
        prompt_(out) {}

  void run() {
    prompt_.control(profile_.bos);
    front();
    const std::vector<Message>& messages = request_.messages;
    for (std::size_t i = 0; i < messages.size();)
      i = turn(i);
    if (!open_prefix_)
      answer_header();
    out_.parse.thinking = request_.thinking;
    out_.parse.tools = !request_.tools.empty();
    out_.parse.json = request_.format.kind == ResponseFormat::Kind::kJsonObject;
    out_.parse.track_tokens = request_.sampling.logprobs >= 0;
    out_.parse.keep_eos = request_.sampling.ignore_eos;
    out_.parse.stop = request_.stop;
  }

 private:
  // System text, effort, tools and response format: what stands before the first turn.
  void front() {
    const std::vector<const Message*> system = front_messages();
    const bool has_text = std::any_of(
        system.begin(), system.end(), [](const Message* message) { return shows(*message); });
    const bool has_format = request_.format.kind == ResponseFormat::Kind::kJsonObject ||
                            request_.format.kind == ResponseFormat::Kind::kJsonSchema;
    if (profile_.has_system_turns &&
        (has_text || request_.thinking || !request_.tools.empty() || has_format)) {
      prompt_.control(profile_.system);
    }
    if (request_.thinking)
      prompt_.plain(effort_text(profile_, request_.effort));
    std::string_view separator;
    for (const Message* message : system) {
      prompt_.plain(separator);
      parts(message->parts);
      separator = kBlockSeparator;
    }
    tools_block();
    format_block();
  }

  // V4.1: the message at the very front. V4: all system messages, wherever they were sent.
  std::vector<const Message*> front_messages() const {
    std::vector<const Message*> out;
    for (const Message& message : request_.messages) {
      if (message.role == Role::kSystem)
        out.push_back(&message);
      if (profile_.has_system_turns)
        break;
    }
    return out;
  }

  static bool shows(const Message& message) {
    return std::any_of(message.parts.begin(), message.parts.end(), [](const ContentPart& part) {
      return part.image || !part.text.empty();
    });
  }

  void tools_block() {
    if (request_.tools.empty())
      return;
    prompt_.plain(kBlockSeparator);
    const std::vector<ControlToken> controls = {
        profile_.dsml, profile_.think_open, profile_.think_close};
    prompt_.with_controls(profile_.tools_head, controls);
    std::string schemas;
    for (const ToolSpec& tool : request_.tools) {
      if (!schemas.empty())
        schemas += '\n';
      schemas += "{\"name\": ";
      append_json_string(schemas, tool.name);
      schemas += ", \"description\": ";
      append_json_string(schemas, tool.description);
      schemas += ", \"parameters\": ";
      append_python_json(schemas, tool.parameters);
      schemas += '}';
    }
    prompt_.plain(schemas);
    prompt_.plain(profile_.tools_tail);
  }

  void format_block() {
    if (request_.format.kind == ResponseFormat::Kind::kJsonObject) {
      prompt_.plain(kBlockSeparator);
      prompt_.plain(profile_.json_format);
    } else if (request_.format.kind == ResponseFormat::Kind::kJsonSchema) {
      prompt_.plain(kBlockSeparator);
      prompt_.plain(profile_.schema_format_head);
      prompt_.plain(python_json(request_.format.schema));
    }
  }

  // Renders the turn that starts at message `index`; returns where the next one starts.
  std::size_t turn(std::size_t index) {
    const Message& message = request_.messages[index];
    switch (message.role) {
      case Role::kSystem:
        system_turn(index);
        return index + 1;
      case Role::kReminder:
        return reminders(index);
      case Role::kAssistant:
        assistant_turn(message);
        return index + 1;
      case Role::kUser:
      case Role::kTool:
        return user_turn(index);
    }
    return index + 1;
  }

  void system_turn(std::size_t index) {
    const Message& message = request_.messages[index];
    if (index == 0 || !profile_.has_system_turns || !shows(message))
      return;
    prompt_.control(profile_.system);
    parts(message.parts);
  }

  std::size_t reminders(std::size_t index) {
    const std::vector<Message>& messages = request_.messages;
    const std::size_t first = index;
    for (; index < messages.size() && messages[index].role == Role::kReminder; ++index) {
      if (index > first && options_.strict_official)
        continue;
      prompt_.control(profile_.reminder);
      parts(messages[index].parts);
    }
    return index;
  }

  // Consecutive user messages and tool results are one turn.
  std::size_t user_turn(std::size_t index) {
    const std::vector<Message>& messages = request_.messages;
    std::vector<const Message*> results;
    std::vector<const Message*> blocks;
    for (; index < messages.size(); ++index) {
      if (messages[index].role == Role::kTool) {
        results.push_back(&messages[index]);
      } else if (messages[index].role == Role::kUser) {
        blocks.push_back(&messages[index]);
      } else {
        break;
      }
    }
    std::stable_sort(results.begin(), results.end(), [this](const Message* a, const Message* b) {
      return call_place(*a) < call_place(*b);
    });
    blocks.insert(blocks.begin(), results.begin(), results.end());
    prompt_.control(profile_.user);
    std::string_view separator;
    for (const Message* block : blocks) {
      prompt_.plain(separator);
      if (block->role == Role::kTool)
        prompt_.plain("<tool_result>");
      parts(block->parts);
      if (block->role == Role::kTool)
        prompt_.plain("</tool_result>");
      separator = kBlockSeparator;
    }
    return index;
  }

  // Results follow the order of the calls they answer, not the order in which they arrived.
  std::size_t call_place(const Message& result) const {
    const auto place = call_places_.find(result.call_id);
    return place == call_places_.end() ? 0 : place->second;
  }

  void assistant_turn(const Message& message) {
    call_places_.clear();
    for (std::size_t i = 0; i < message.calls.size(); ++i)
      call_places_.emplace(message.calls[i].id, i);
    if (message.is_prefix)
      return prefix_turn(message);
    prompt_.control(profile_.assistant);
    // Old reasoning is shown only to conversations with tools, and then all of it.
    if (request_.thinking && !request_.tools.empty()) {
      prompt_.control(profile_.think_open);
      prompt_.with_controls(message.reasoning.value_or(""), profile_.grounding);
    }
    prompt_.control(profile_.think_close);
    assistant_parts(message);
    calls_block(message.calls);
    prompt_.control(profile_.eos);
  }

  // The model goes on inside this message: no end of turn. An empty one is as if it were not there.
  void prefix_turn(const Message& message) {
    const bool has_reasoning = request_.thinking && !message.reasoning.value_or("").empty();
    const bool has_content = shows(message);
    if (!has_reasoning && !has_content)
      return;
    open_prefix_ = true;
    prompt_.control(profile_.assistant);
    if (request_.thinking) {
      prompt_.control(profile_.think_open);
      prompt_.with_controls(message.reasoning.value_or(""), profile_.grounding);
    }
    if (has_content || !request_.thinking) {
      prompt_.control(profile_.think_close);
      assistant_parts(message);
    }
    if (request_.thinking)
      out_.parse.start =
          has_content ? StartState::kContentContinued : StartState::kReasoningContinued;
  }

  void assistant_parts(const Message& message) {
    std::string_view separator;
    for (const ContentPart& part : message.parts) {
      prompt_.plain(separator);
      prompt_.with_controls(part.text, profile_.grounding);
      separator = kBlockSeparator;
    }
  }

  void parts(const std::vector<ContentPart>& list) {
    std::string_view separator;
    for (const ContentPart& part : list) {
      prompt_.plain(separator);
      if (part.image) {
        prompt_.image(*part.image, profile_);
      } else {
        prompt_.plain(part.text);
      }
      separator = kBlockSeparator;
    }
  }

  void tag(std::string_view opener, std::string_view name) {
    prompt_.plain(opener);
    prompt_.control(profile_.dsml);
    prompt_.plain(name);
  }

  void open_calls() {
    prompt_.plain("\n\n");
    tag("<", profile_.calls_tag);
    prompt_.plain(">\n");
  }

  void calls_block(const std::vector<PastCall>& calls) {
    if (calls.empty())
      return;
    open_calls();
    for (const PastCall& call : calls) {
      tag("<", profile_.invoke_tag);
      prompt_.plain(" name=\"");
      prompt_.plain(call.name);
      prompt_.plain("\">\n");
      parameters(call.arguments);
      tag("</", profile_.invoke_tag);
      prompt_.plain(">\n");
    }
    tag("</", profile_.calls_tag);
    prompt_.plain(">");
  }

  void parameters(const std::string& arguments) {
    const JsonReadOptions read = {.depth_max = kJsonDepthMax,
                                  .repair_lone_surrogates = !options_.strict_official};
    const auto value = read_json(arguments, read);
    if (!value || !value->is_object())
      return parameter("arguments", JsonValue::string(arguments));
    for (const JsonMember& member : value->members)
      parameter(member.name, member.value);
    if (value->members.empty() && profile_.blank_line_without_parameters)
      prompt_.plain("\n");
  }

  // Values are raw between the tags; what ends them is the control token, which no value can hold.
  void parameter(std::string_view name, const JsonValue& value) {
    tag("<", profile_.parameter_tag);
    prompt_.plain(" name=\"");
    prompt_.plain(name);
    prompt_.plain(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
    prompt_.plain(value.is_string() ? value.text : python_json(value));
    tag("</", profile_.parameter_tag);
    prompt_.plain(">\n");
  }

  void answer_header() {
    prompt_.control(profile_.assistant);
    prompt_.control(request_.thinking ? profile_.think_open : profile_.think_close);
    out_.parse.start = request_.thinking ? StartState::kReasoning : StartState::kContent;
    if (request_.tool_choice != ToolChoice::kForced)
      return;
    open_calls();
    out_.parse.start = StartState::kInCalls;
  }

  const ChatRequest& request_;
  const ModelProfile& profile_;
  const ChatOptions& options_;
  RenderedPrompt& out_;
  Prompt prompt_;
  std::unordered_map<std::string_view, std::size_t> call_places_;  // of the last assistant message
  bool open_prefix_ = false;
};

}  // namespace

RenderedPrompt render_chat(const ChatRequest& request,
                           const ModelProfile& profile,
                           const ChatOptions& options) {
  RenderedPrompt out;
  Renderer(request, profile, options, out).run();
  return out;
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt) {
  std::vector<TokenId> ids;
  const std::string_view text = prompt.text;
  std::size_t at = 0;
  for (const ControlRange& range : prompt.control) {
    if (range.first > at)
      tokenizer.encode(text.substr(at, range.first - at), ids);
    ids.push_back(range.id);
    at = range.end;
  }
  if (at < text.size())
    tokenizer.encode(text.substr(at), ids);
  return ids;
}

}  // namespace shoal
