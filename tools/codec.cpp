// shoal codec: JSON Lines in, JSON Lines out: what the codec makes of a request body, a text, ids
// or an answer, without a model.
#include <cstdio>
#include <iostream>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/json_fields.h"
#include "actors/codec/json_reader.h"
#include "actors/codec/json_writer.h"
#include "tools/codec_answers.h"
#include "tools/codec_lines.h"
#include "tools/commands.h"

namespace shoal::tools {

namespace {

ChatOptions chat_options(const JsonValue* switches, bool as_served) {
  ChatOptions options;
  options.strict_official = !as_served;
  if (switches == nullptr) {
    return options;
  }
  if (const JsonValue* thinking = given(*switches, "default_thinking_mode")) {
    options.default_thinking = thinking->boolean;
  }
  if (const JsonValue* behavior = given(*switches, "reasoning_content_behavior")) {
    options.reject_missing_reasoning = behavior->text == "Reject";
  }
  return options;
}

void append_prompt(std::string& out, const Tokenizer& tokenizer, const RenderedPrompt& prompt) {
  out += ",\"prompt\":";
  append_json_string(out, prompt.text);
  out += ",\"control\":[";
  for (const ControlRange& range : prompt.control) {
    out += out.back() == '[' ? "[" : ",[";
    append_json_int(out, static_cast<std::int64_t>(range.first));
    out += ',';
    append_json_int(out, static_cast<std::int64_t>(range.end));
    out += ',';
    append_json_int(out, range.id);
    out += ']';
  }
  out += "],\"ids\":";
  append_ids(out, encode_prompt(tokenizer, prompt));
}

// A request that the codec refuses is an answer; only a line that is no case is an error.
Result<RenderedPrompt> render(const std::string& text,
                              const ChatOptions& options,
                              const Codec& codec) {
  TRY(const JsonValue body, read_json(text, {.repair_lone_surrogates = !options.strict_official}));
  const ModelProfile& profile = codec.profile_for(body);
  TRY(const ChatRequest request, read_chat_request(body, profile, options));
  return render_chat(request, profile, options);
}

Result<void> answer_render(const JsonValue& line, const Codec& codec, std::string& out) {
  TRY(const std::string* dialect, string_field(line, "dialect"));
  TRY(const std::string* body, string_field(line, "body"));
  if (body == nullptr) {
    return fail(Code::kInvalid, "`body` is missing: the request body as a string");
  }
  if (dialect != nullptr && *dialect != "chat") {
    append_refusal(out,
                   Error{Code::kInvalid, "dialect `" + *dialect + "` is not known; known: chat"});
    return {};
  }
  const auto prompt = render(*body, chat_options(given(line, "options"), codec.as_served), codec);
  if (prompt) {
    append_prompt(out, *codec.tokenizer, *prompt);
  } else {
    append_refusal(out, prompt.error());
  }
  return {};
}

Result<std::string> read_runs(const JsonValue& runs) {
  if (!runs.is_array()) {
    return fail(Code::kInvalid, "`text_runs` is a list of [text, count]");
  }
  std::string text;
  for (const JsonValue& run : runs.items) {
    const auto count = run.items.size() == 2 ? as_integer(run.items[1]) : std::nullopt;
    if (!count || *count < 0 || !run.items[0].is_string()) {
      return fail(Code::kInvalid, "`text_runs` is a list of [text, count]");
    }
    for (std::int64_t i = 0; i < *count; ++i) {
      text += run.items[0].text;
    }
  }
  return text;
}

Result<void> answer_tokenize(const JsonValue& line, const Codec& codec, std::string& out) {
  const JsonValue* runs = given(line, "text_runs");
  TRY(const std::string* text, string_field(line, "text"));
  if (text == nullptr && runs == nullptr) {
    return fail(Code::kInvalid, "`text` or `text_runs` is missing");
  }
  std::string joined;
  if (text == nullptr) {
    TRY(joined, read_runs(*runs));
    text = &joined;
  }
  out += ",\"ids\":";
  append_ids(out, codec.tokenizer->encode(*text));
  return {};
}

Result<void> answer_decode(const JsonValue& line, const Codec& codec, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  const JsonValue* list = given(line, "ids");
  if (list == nullptr) {
    return fail(Code::kInvalid, "`ids` is missing: a list of token ids");
  }
  TRY(const std::vector<TokenId> ids, read_ids(*list));
  const std::string bytes = decode_bytes(*codec.tokenizer, ids);
  out += ",\"bytes_hex\":\"";
  for (const char byte : bytes) {
    out += kHex[static_cast<unsigned char>(byte) >> 4];
    out += kHex[static_cast<unsigned char>(byte) & 15];
  }
  out += "\",\"text\":";
  append_json_string(out, replace_malformed_utf8(bytes));
  return {};
}

Result<void> answer(CodecTask task, const JsonValue& line, const Codec& codec, std::string& out) {
  switch (task) {
    case CodecTask::kRender:
      return answer_render(line, codec, out);
    case CodecTask::kTokenize:
      return answer_tokenize(line, codec, out);
    case CodecTask::kDecode:
      return answer_decode(line, codec, out);
    case CodecTask::kParse:
      return answer_parse(line, codec, out);
  }
  return fail(Code::kInternal, "no such task");
}

Result<std::string> answer_line(CodecTask task, const std::string& text, const Codec& codec) {
  TRY(const JsonValue line, read_json(text));
  if (!line.is_object()) {
    return fail(Code::kInvalid,
                "a case is a JSON object, not " + std::string(kind_name(line.kind)));
  }
  std::string out = "{\"id\":";
  append_id(out, line.find("id"));
  TRY_VOID(answer(task, line, codec, out));
  return out + "}\n";
}

}  // namespace

int run_codec(const CodecOptions& options) {
  const auto codec = load_codec(options);
  if (!codec) {
    return report(codec.error());
  }
  int status = 0;
  std::string text;
  for (std::int64_t number = 1; std::getline(std::cin, text); ++number) {
    const auto out = answer_line(options.task, text, *codec);
    if (out) {
      std::fwrite(out->data(), 1, out->size(), stdout);
    } else {
      status = report(
          Error{out.error().code, "line " + std::to_string(number) + ": " + out.error().message});
    }
  }
  return std::fflush(stdout) == 0 ? status : 1;
}

}  // namespace shoal::tools
