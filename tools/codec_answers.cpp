// Feeds the chunks to the stream decoder and writes what leaves at each, and the joined result.
#include "tools/codec_answers.h"

#include "actors/codec/chat_renderer.h"
#include "actors/codec/json_fields.h"
#include "actors/codec/json_writer.h"
#include "actors/codec/openai_shapes.h"
#include "actors/codec/stream_decoder.h"

namespace shoal::tools {

namespace {

// What a client has after joining all events.
struct JoinedAnswer {
  bool thinking = false;
  std::string reasoning;
  std::string content;
  std::vector<StreamEvent> calls;  // text: the name
  std::vector<std::string> arguments;
  StreamEvent end;

  void add(const StreamEvent& event) {
    switch (event.kind) {
      case StreamEvent::Kind::kReasoning:
        reasoning += event.text;
        return;
      case StreamEvent::Kind::kContent:
        content += event.text;
        return;
      case StreamEvent::Kind::kCallBegin:
        calls.push_back(event);
        arguments.emplace_back();
        return;
      case StreamEvent::Kind::kCallArguments:
        arguments[static_cast<std::size_t>(event.call)] += event.text;
        return;
      case StreamEvent::Kind::kEnd:
        end = event;
        return;
    }
  }
};

void append_reasoning_tokens(std::string& out, const StreamEvent& end, bool thinking) {
  if (thinking) {
    append_json_int(out, end.reasoning_tokens);
  } else {
    out += "null";
  }
}

void append_event(std::string& out, const StreamEvent& event, bool thinking) {
  switch (event.kind) {
    case StreamEvent::Kind::kReasoning:
      out += "[\"r\",";
      break;
    case StreamEvent::Kind::kContent:
      out += "[\"c\",";
      break;
    case StreamEvent::Kind::kCallBegin:
      out += "[\"call\"," + std::to_string(event.call) + ",";
      break;
    case StreamEvent::Kind::kCallArguments:
      out += "[\"args\"," + std::to_string(event.call) + ",";
      break;
    case StreamEvent::Kind::kEnd:
      out += "[\"end\",";
      append_json_string(out, finish_reason_name(event.reason));
      out += "," + std::to_string(event.completion_tokens) + ",";
      append_reasoning_tokens(out, event, thinking);
      out += "]";
      return;
  }
  append_json_string(out, event.text);
  out += "]";
}

void append_step(std::string& out,
                 bool had_ended,
                 const std::vector<StreamEvent>& events,
                 JoinedAnswer& joined) {
  if (had_ended) {
    out += ",null";
    return;
  }
  out += ",[";
  for (const StreamEvent& event : events) {
    if (out.back() != '[') {
      out += ',';
    }
    append_event(out, event, joined.thinking);
    joined.add(event);
  }
  out += ']';
}

void append_final(std::string& out, const JoinedAnswer& joined) {
  out += ",\"final\":{\"reasoning\":";
  append_json_string(out, joined.reasoning);
  out += ",\"content\":";
  append_json_string(out, joined.content);
  out += ",\"calls\":[";
  for (std::size_t i = 0; i < joined.calls.size(); ++i) {
    out += i > 0 ? ",[" : "[";
    append_json_string(out, joined.calls[i].text);
    out += ',';
    append_json_string(out, joined.arguments[i]);
    out += ']';
  }
  out += "],\"finish\":";
  append_json_string(out, finish_reason_name(joined.end.reason));
  out += ",\"completion_tokens\":" + std::to_string(joined.end.completion_tokens);
  out += ",\"reasoning_tokens\":";
  append_reasoning_tokens(out, joined.end, joined.thinking);
  out += '}';
}

Result<void> push_chunk(StreamDecoder& decoder,
                        const JsonValue& chunk,
                        std::vector<StreamEvent>& events) {
  TRY(const std::string* text, string_field(chunk, "text"));
  if (text != nullptr) {
    TRY(const auto tokens, integer_field(chunk, "n"));
    decoder.push_text(*text, static_cast<std::uint32_t>(tokens.value_or(0)), events);
    return {};
  }
  const JsonValue* list = given(chunk, "ids");
  if (list == nullptr) {
    return fail(Code::kInvalid, "a chunk is {\"ids\": […]} or {\"text\": …, \"n\": tokens}");
  }
  TRY(const std::vector<TokenId> ids, read_ids(*list));
  return decoder.push(ids, events);
}

// The steps of the whole answer, joined into `joined`. kInternal: the engine's output is broken.
Result<std::string> decode_steps(StreamDecoder& decoder,
                                 const JsonValue& chunks,
                                 EndReason finish,
                                 JoinedAnswer& joined) {
  std::string steps = "[[[\"start\"]]";
  for (const JsonValue& chunk : chunks.items) {
    std::vector<StreamEvent> events;
    const bool had_ended = decoder.has_ended();
    TRY_VOID(push_chunk(decoder, chunk, events));
    append_step(steps, had_ended, events, joined);
  }
  std::vector<StreamEvent> events;
  const bool had_ended = decoder.has_ended();
  decoder.finish(finish, events);
  append_step(steps, had_ended, events, joined);
  return steps + ",null]";  // after the engine's reason nothing is left for the end of input
}

}  // namespace

Result<void> answer_parse(const JsonValue& line, const Codec& codec, std::string& out) {
  const JsonValue* body = given(line, "request");
  const JsonValue* chunks = given(line, "chunks");
  if (body == nullptr || chunks == nullptr || !chunks->is_array()) {
    return fail(Code::kInvalid,
                "`request` (the Chat body that was answered) or `chunks` (a list of what the "
                "engine delivered) is missing");
  }
  TRY(const std::string* finish, string_field(line, "finish"));
  const ModelProfile& profile = codec.profile_for(*body);
  TRY(const ChatRequest request, read_chat_request(*body, profile));
  JoinedAnswer joined;
  joined.thinking = request.thinking;
  StreamDecoder decoder(*codec.tokenizer, profile, render_chat(request, profile).parse);
  const bool is_cut = finish != nullptr && *finish == "length";
  const auto steps =
      decode_steps(decoder, *chunks, is_cut ? EndReason::kLength : EndReason::kStop, joined);
  if (!steps && steps.error().code == Code::kInternal) {
    append_refusal(out, steps.error());
    return {};
  }
  if (!steps) {
    return tl::unexpected(steps.error());
  }
  out += ",\"steps\":" + *steps;
  append_final(out, joined);
  return {};
}

}  // namespace shoal::tools
