// The official program's chunks: one of reasoning_content, content or tool_calls each, the role
// first, usage on the last.
#include "actors/codec/openai_chat.h"

#include <utility>

#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

std::string call_id(int call, std::string_view suffix) {
  std::string id = call < 10 ? "call_0" : "call_";
  id += std::to_string(call);
  id += '_';
  id += suffix;
  return id;
}

void append_nullable(std::string& out, const std::string& text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

// "id", "object", "created" and "model" of a body or a chunk.
void append_head(std::string& out, const AnswerInfo& info, std::string_view object) {
  out += "{\"id\":";
  append_json_string(out, info.id);
  out += ",\"object\":";
  append_json_string(out, object);
  out += ",\"created\":";
  append_json_int(out, info.created);
  out += ",\"model\":";
  append_json_string(out, info.model);
  out += ",\"system_fingerprint\":";
  append_nullable(out, info.fingerprint);
}

std::vector<const TokenLogprob*> carried(const StreamEvent& event,
                                         std::span<const TokenLogprob> logprobs) {
  std::vector<const TokenLogprob*> out;
  for (const std::uint32_t token : event.tokens) {
    if (token < logprobs.size())
      out.push_back(&logprobs[token]);
  }
  return out;
}

std::vector<const TokenLogprob*> pointers(const std::vector<TokenLogprob>& entries) {
  std::vector<const TokenLogprob*> out;
  for (const TokenLogprob& entry : entries)
    out.push_back(&entry);
  return out;
}

}  // namespace

ChatChunks::ChatChunks(ChatShape shape, int choice) : shape_(std::move(shape)) {
  append_head(head_, shape_.info, "chat.completion.chunk");
  head_ += ",\"choices\":[{\"index\":";
  append_json_int(head_, choice);
  head_ += ",\"delta\":{";
}

void ChatChunks::open_delta(std::string& out) const {
  begin_event(out);
  out += head_;
}

void ChatChunks::close_chunk(std::string_view finish_reason,
                             const Usage* usage,
                             std::string& out) const {
  out += ",\"finish_reason\":";
  if (finish_reason.empty()) {
    out += "null";
  } else {
    append_json_string(out, finish_reason);
  }
  out += "}],\"usage\":";
  if (usage == nullptr) {
    out += "null";
  } else {
    append_usage(out, *usage);
  }
  out += '}';
  end_event(out);
}

void ChatChunks::close_delta(const StreamEvent* event,
                             std::span<const TokenLogprob> logprobs,
                             std::string& out) const {
  out += "},\"logprobs\":";
  const bool has_logprobs =
      event != nullptr && shape_.logprob_tokenizer != nullptr && !event->tokens.empty();
  if (has_logprobs) {
    out +=
        event->kind == StreamEvent::Kind::kReasoning ? "{\"reasoning_content\":" : "{\"content\":";
    append_chat_logprobs(out, *shape_.logprob_tokenizer, carried(*event, logprobs));
    out += '}';
  } else {
    out += "null";
  }
}

void ChatChunks::begin(std::string& out) const {
  open_delta(out);
  out += "\"role\":\"assistant\",";
  out += shape_.thinking ? R"("content":null,"reasoning_content":"")" : R"("content":"")";
  close_delta(nullptr, {}, out);
  close_chunk({}, nullptr, out);
}

void ChatChunks::event(const StreamEvent& event,
                       std::span<const TokenLogprob> logprobs,
                       std::string& out) const {
  open_delta(out);
  switch (event.kind) {
    case StreamEvent::Kind::kReasoning:
      out += "\"content\":null,\"reasoning_content\":";
      append_json_string(out, event.text);
      break;
    case StreamEvent::Kind::kContent:
      out += "\"content\":";
      append_json_string(out, event.text);
      if (shape_.thinking)
        out += ",\"reasoning_content\":null";
      break;
    case StreamEvent::Kind::kCallBegin:
    case StreamEvent::Kind::kCallArguments: {
      const bool begins = event.kind == StreamEvent::Kind::kCallBegin;
      out += "\"tool_calls\":[{\"index\":";
      append_json_int(out, event.call);
      if (begins) {
        out += ",\"id\":";
        append_json_string(out, call_id(event.call, shape_.call_suffix));
        out += ",\"type\":\"function\",\"function\":{\"name\":";
        append_json_string(out, event.text);
        out += ",\"arguments\":\"\"}}]";
      } else {
        out += ",\"function\":{\"arguments\":";
        append_json_string(out, event.text);
        out += "}}]";
      }
      break;
    }
    case StreamEvent::Kind::kEnd:
      break;
  }
  close_delta(&event, logprobs, out);
  close_chunk({}, nullptr, out);
}

void ChatChunks::end(EndReason reason, const Usage* usage, std::string& out) const {
  open_delta(out);
  out += shape_.thinking ? R"("content":"","reasoning_content":null)" : R"("content":"")";
  close_delta(nullptr, {}, out);
  close_chunk(finish_reason_name(reason), usage, out);
}

void ChatChoice::add(const StreamEvent& event, std::span<const TokenLogprob> logprobs) {
  switch (event.kind) {
    case StreamEvent::Kind::kReasoning:
    case StreamEvent::Kind::kContent: {
      const bool is_reasoning = event.kind == StreamEvent::Kind::kReasoning;
      (is_reasoning ? reasoning_ : content_) += event.text;
      if (shape_.logprob_tokenizer == nullptr)
        break;
      std::vector<TokenLogprob>& entries = is_reasoning ? reasoning_logprobs_ : content_logprobs_;
      for (const TokenLogprob* entry : carried(event, logprobs))
        entries.push_back(*entry);
      break;
    }
    case StreamEvent::Kind::kCallBegin:
      calls_.push_back({event.text, ""});
      break;
    case StreamEvent::Kind::kCallArguments:
      calls_[static_cast<std::size_t>(event.call)].arguments += event.text;
      break;
    case StreamEvent::Kind::kEnd:
      reason_ = event.reason;
      break;
  }
}

void ChatChoice::append(std::string& out, int choice) const {
  out += "{\"index\":";
  append_json_int(out, choice);
  out += ",\"message\":{\"role\":\"assistant\",\"content\":";
  append_json_string(out, content_);
  if (shape_.thinking) {
    out += ",\"reasoning_content\":";
    append_json_string(out, reasoning_);
  }
  if (!calls_.empty())
    out += ",\"tool_calls\":[";
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const int index = static_cast<int>(i);
    out += index == 0 ? "{\"index\":" : ",{\"index\":";
    append_json_int(out, index);
    out += ",\"id\":";
    append_json_string(out, call_id(index, shape_.call_suffix));
    out += ",\"type\":\"function\",\"function\":{\"name\":";
    append_json_string(out, calls_[i].name);
    out += ",\"arguments\":";
    append_json_string(out, calls_[i].arguments);
    out += "}}";
  }
  if (!calls_.empty())
    out += ']';
  out += "},\"logprobs\":";
  if (shape_.logprob_tokenizer == nullptr) {
    out += "null";
  } else {
    out += "{\"content\":";
    append_chat_logprobs(out, *shape_.logprob_tokenizer, pointers(content_logprobs_));
    if (shape_.thinking) {
      out += ",\"reasoning_content\":";
      append_chat_logprobs(out, *shape_.logprob_tokenizer, pointers(reasoning_logprobs_));
    }
    out += '}';
  }
  out += ",\"finish_reason\":";
  append_json_string(out, finish_reason_name(reason_));
  out += '}';
}

void append_chat_completion(std::string& out,
                            std::span<const ChatChoice> choices,
                            const Usage& usage) {
  append_head(out, choices.front().info(), "chat.completion");
  out += ",\"choices\":[";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0)
      out += ',';
    choices[i].append(out, static_cast<int>(i));
  }
  out += "],\"usage\":";
  append_usage(out, usage);
  out += '}';
}

}  // namespace shoal
