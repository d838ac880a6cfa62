// Events become the official wire format; completions become what OpenAI's and vLLM's clients read.
#include <cmath>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/chat_request.h"
#include "actors/codec/json_reader.h"
#include "actors/codec/model_profile.h"
#include "actors/codec/openai_chat.h"
#include "actors/codec/openai_completions.h"
#include "actors/codec/stream_decoder.h"
#include "tests/codec/golden_tokenizer.h"

namespace {

using nlohmann::json;
using namespace shoal;

const Tokenizer& tokenizer() {
  return *golden_tokenizer();
}

const ModelProfile& profile() {
  static const ModelProfile model = make_profile(Generation::kV41, tokenizer()).value();
  return model;
}

constexpr const char* kSuffix = "abcdefghijklmnopqrstuvwx";

// The JSON of each server-sent event; checks the framing.
json events_of(const std::string& sse) {
  json out = json::array();
  for (std::size_t at = 0; at < sse.size();) {
    REQUIRE(sse.compare(at, 6, "data: ") == 0);
    const std::size_t end = sse.find("\n\n", at);
    REQUIRE(end != std::string::npos);
    out.push_back(json::parse(sse.substr(at + 6, end - at - 6)));
    at = end + 2;
  }
  return out;
}

std::string without_suffix(std::string text) {
  const std::string suffix = std::string("_") + kSuffix;
  for (std::size_t at = text.find(suffix); at != text.npos; at = text.find(suffix))
    text.erase(at, suffix.size());
  return text;
}

// Joins `from` into `to` when both carry a fragment of the same thing.
bool join(json& to, const json& from) {
  json& left = to["choices"][0];
  const json& right = from["choices"][0];
  if (!left["finish_reason"].is_null() || !right["finish_reason"].is_null() ||
      left["delta"].contains("role"))
    return false;
  for (const char* key : {"reasoning_content", "content"}) {
    if (!right["delta"].contains(key) || !right["delta"][key].is_string())
      continue;
    if (!left["delta"].contains(key) || !left["delta"][key].is_string())
      return false;
    left["delta"][key] =
        left["delta"][key].get<std::string>() + right["delta"][key].get<std::string>();
    if (right["logprobs"].is_object()) {
      for (const json& entry : right["logprobs"][key])
        left["logprobs"][key].push_back(entry);
    }
    return true;
  }
  if (!left["delta"].contains("tool_calls"))
    return false;
  json& call = left["delta"]["tool_calls"][0];
  const json& fragment = right["delta"]["tool_calls"][0];
  if (call["index"] != fragment["index"] || fragment.contains("id"))
    return false;
  call["function"]["arguments"] = call["function"]["arguments"].get<std::string>() +
                                  fragment["function"]["arguments"].get<std::string>();
  return true;
}

// How text is cut into chunks is free; everything else is compared.
json joined(const json& events) {
  json out = json::array();
  for (const json& event : events) {
    if (out.empty() || !join(out.back(), event))
      out.push_back(event);
  }
  return out;
}

// What differs by choice: reasoning tokens are counted by id, unfinished calls are no tool_calls,
// JSON mode has no spaces around.
void even_out(json& value, bool is_json_mode, bool is_truncated) {
  if (value.is_object() && value.contains("completion_tokens_details"))
    value["completion_tokens_details"] = "counted";
  if (is_truncated && value.is_object() && value.value("finish_reason", json()) == "tool_calls")
    value["finish_reason"] = "stop";
  if (is_json_mode && value.is_object() && value.contains("content") &&
      value["content"].is_string()) {
    std::string text = value["content"];
    text.erase(0, text.find_first_not_of(' '));
    text.erase(text.find_last_not_of(' ') + 1);
    value["content"] = text;
  }
  if (value.is_structured()) {
    for (json& child : value)
      even_out(child, is_json_mode, is_truncated);
  }
}

struct Wire {
  json events = json::array();
  json unary;
};

std::vector<TokenLogprob> logprobs_of(const json& chunk) {
  std::vector<TokenLogprob> out;
  const json entries = chunk.value("logprobs", json::array());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    TokenLogprob entry{chunk["ids"][i], entries[i][0], {}};
    for (const json& top : entries[i][1])
      entry.top.emplace_back(top[0].get<TokenId>(), top[1].get<float>());
    out.push_back(entry);
  }
  return out;
}

Wire serve(const json& golden, bool engine_is_ready, const std::string& fingerprint) {
  const auto request =
      read_chat_request(read_json(golden["chat"]["request"].dump()).value(), profile());
  REQUIRE(request);
  const RenderedPrompt prompt = render_chat(*request, profile());
  const bool has_logprobs = request->sampling.logprobs >= 0;
  const ChatShape shape{{"ID", 0, request->model, fingerprint},
                        request->thinking,
                        kSuffix,
                        has_logprobs ? &tokenizer() : nullptr};
  const ChatChunks chunks(shape, 0);
  ChatChoice choice(shape);
  StreamDecoder decoder(tokenizer(), profile(), prompt.parse);
  std::vector<TokenLogprob> logprobs;
  std::string sse;
  if (engine_is_ready)
    chunks.begin(sse);
  std::vector<StreamEvent> events;
  for (const json& chunk : golden["chunks"]) {
    for (TokenLogprob& entry : logprobs_of(chunk))
      logprobs.push_back(entry);
    if (chunk.contains("text")) {
      decoder.push_text(chunk["text"].get<std::string>(), chunk["n"], events);
    } else {
      REQUIRE(decoder.push(chunk["ids"].get<std::vector<TokenId>>(), events));
    }
  }
  const std::string reason = golden["finish"];
  decoder.finish(reason == "length"           ? EndReason::kLength
                 : reason == "content_filter" ? EndReason::kContentFilter
                                              : EndReason::kStop,
                 events);
  Usage usage;
  if (engine_is_ready)
    usage = {10, 4, 0, 0, false};
  usage.completion_tokens = decoder.completion_tokens();
  usage.reasoning_tokens = decoder.reasoning_tokens();
  usage.has_reasoning = request->thinking;
  for (const StreamEvent& event : events) {
    choice.add(event, logprobs);
    if (event.kind == StreamEvent::Kind::kEnd) {
      chunks.end(event.reason, &usage, sse);
    } else {
      chunks.event(event, logprobs, sse);
    }
  }
  std::string body;
  append_chat_completion(body, std::span(&choice, 1), usage);
  return {events_of(without_suffix(sse)), json::parse(without_suffix(body))};
}

CompletionRequest completion(const std::string& body) {
  const auto request = read_completion_request(read_json(body).value());
  REQUIRE_MESSAGE(request, request.error().message);
  return *request;
}

std::string completion_error(const std::string& body) {
  const auto request = read_completion_request(read_json(body).value());
  return request ? "accepted" : request.error().message;
}

}  // namespace

TEST_CASE("chat answers have the official wire format, streamed and whole") {
  int cases = 0;
  for (const json& golden : golden_codec_cases("wire.jsonl")) {
    if (!golden.contains("chat"))
      continue;
    ++cases;
    CAPTURE(golden["id"].get<std::string>());
    json expected = json::array();
    for (const json& step : golden["chat"]["events"]) {
      for (const json& event : step)
        expected.push_back(event);
    }
    const std::string fingerprint = expected[0]["system_fingerprint"].is_null() ? "" : "fp";
    Wire wire = serve(golden, !golden["chat"]["events"][0].empty(), fingerprint);
    const bool is_json_mode = golden["chat"]["request"].contains("response_format");
    const bool is_truncated = golden["scenario"].get<std::string>().starts_with("truncated");
    json ours = joined(wire.events);
    json official = joined(expected);
    even_out(ours, is_json_mode, is_truncated);
    even_out(official, is_json_mode, is_truncated);
    CHECK(ours == official);
    if (!golden["chat"].contains("unary"))
      continue;
    json body = golden["chat"]["unary"];
    even_out(body, is_json_mode, is_truncated);
    even_out(wire.unary, is_json_mode, is_truncated);
    CHECK(wire.unary == body);
  }
  CHECK(cases == 10);
}

TEST_CASE("usage rides on the last chunk only, every other one says null") {
  const ChatChunks chunks({{"ID", 5, "m", ""}, true, kSuffix, nullptr}, 1);
  std::string sse;
  const Usage usage{7, 0, 3, 2, true};
  chunks.begin(sse);
  chunks.end(EndReason::kLength, &usage, sse);
  const json events = events_of(sse);
  REQUIRE(events.size() == 2);
  CHECK(events[0]["usage"].is_null());
  CHECK(events[0]["choices"][0]["index"] == 1);
  CHECK(events[1]["usage"]["total_tokens"] == 10);
  CHECK(events[1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2);
  CHECK(events[1]["usage"]["prompt_cache_miss_tokens"] == 7);
  CHECK(events[1]["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("log probabilities have a floor, half characters are shown as bytes") {
  std::string out;
  append_logprob(out, -INFINITY);
  CHECK(out == "-9999.0");
  const TokenId half = tokenizer().encode("𓀀")[0];
  CHECK(token_label(tokenizer(), half).starts_with("\\x"));
  CHECK(token_label(tokenizer(), tokenizer().encode("é")[0]) == "é");
}

TEST_CASE("errors have the official shape, whatever the message holds") {
  const json invalid =
      json::parse(error_body({.message = "bad \"x\"", .type = "a", .param = "x", .code = "b"}));
  CHECK(invalid["error"] ==
        json({{"message", "bad \"x\""}, {"type", "a"}, {"param", "x"}, {"code", "b"}}));
  const json broken = json::parse(error_body({.message = "half \xE6\xBC", .type = "a"}))["error"];
  CHECK(broken["message"] == "half \uFFFD");
  CHECK(broken["param"].is_null());
  CHECK(broken["code"].is_null());
}

TEST_CASE("a completion takes its prompt as text, as ids, or as a list with one of either") {
  CHECK(completion(R"({"model":"m","prompt":"hi"})").prompt == "hi");
  CHECK(completion(R"({"model":"m","prompt":["hi"]})").prompt == "hi");
  CHECK(completion(R"({"model":"m","prompt":[1,2]})").prompt_ids == std::vector<TokenId>{1, 2});
  CHECK(completion(R"({"model":"m","prompt":[[1,2]]})").prompt_is_ids);
  CHECK(completion(R"({"model":"m","prompt":""})").prompt.empty());
  for (const char* bad : {R"({"model":"m"})",
                          R"({"prompt":"x"})",
                          R"({"model":"m","prompt":[]})",
                          R"({"model":"m","prompt":["a","b"]})",
                          R"({"model":"m","prompt":[1,"a"]})",
                          R"({"model":"m","prompt":[-1]})",
                          R"({"model":"m","prompt":[1.5]})",
                          R"({"model":"m","prompt":5})",
                          R"({"model":"m","prompt":[[]]})"}) {
    CAPTURE(bad);
    CHECK(completion_error(bad) != "accepted");
  }
}

TEST_CASE("completion fields have OpenAI's defaults, vLLM's names and bounds") {
  const CompletionRequest plain = completion(R"({"model":"m","prompt":"x"})");
  CHECK(plain.sampling.max_tokens == 16);
  CHECK(plain.sampling.temperature == 1.0F);
  CHECK(plain.sampling.logprobs == -1);
  CHECK(plain.choices == 1);
  const CompletionRequest full = completion(
      R"({"model":"m","prompt":"x","max_tokens":5,"temperature":0,"top_p":0.9,"top_k":-1,"min_p":0.1,"seed":18446744073709551615,)"
      R"("min_tokens":2,"stop":["a","b"],"stop_token_ids":[3],"ignore_eos":true,"logprobs":20,"n":16,"stream":true,)"
      R"("stream_options":{"include_usage":true},"return_token_ids":true,"replay":"bounded","timeout":2,"unknown":1})");
  CHECK(full.sampling.max_tokens == 5);
  CHECK(full.sampling.temperature == 0.0F);
  CHECK(full.sampling.top_k == 0);
  CHECK(full.sampling.seed == 18446744073709551615ULL);
  CHECK(full.sampling.logprobs == 20);
  CHECK(full.choices == 16);
  CHECK(full.include_usage);
  CHECK(full.serving.return_token_ids);
  CHECK(full.serving.replay == ReplayMode::kBounded);
  CHECK(full.stop == std::vector<std::string>{"a", "b"});
  for (const char* bad : {R"("max_tokens":0)",
                          R"("max_tokens":"5")",
                          R"("temperature":-1)",
                          R"("temperature":2.1)",
                          R"("top_p":0)",
                          R"("logprobs":21)",
                          R"("logprobs":true)",
                          R"("n":0)",
                          R"("n":17)",
                          R"("seed":-9223372036854775809)",
                          R"("seed":18446744073709551616)",
                          R"("seed":1.5)",
                          R"("stop":[1])",
                          R"("stop":[""])",
                          R"("stream_options":{})",
                          R"("best_of":2)",
                          R"("suffix":"x")",
                          R"("echo":true,"logprobs":1)",
                          R"("min_tokens":-1)",
                          R"("stop_token_ids":["a"])",
                          R"("timeout":0)",
                          R"("replay":"no")",
                          R"("top_k":-2)"}) {
    CAPTURE(bad);
    CHECK(completion_error(std::string(R"({"model":"m","prompt":"x",)") + bad + "}") != "accepted");
  }
}

TEST_CASE("a seed is 64 bits, signed or not") {
  const auto seed = [](const std::string& text) {
    return completion(R"({"model":"m","prompt":"x","seed":)" + text + "}").sampling.seed;
  };
  CHECK(seed("-1") == 18446744073709551615ULL);
  CHECK(seed("-9223372036854775808") == 9223372036854775808ULL);
  CHECK(seed("9223372036854775807") == 9223372036854775807ULL);
}

TEST_CASE("a number beyond its bound is told the bound, however large it is") {
  for (const char* number :
       {"0", "-1", "2147483648", "9223372036854775808", "-99999999999999999999"}) {
    CAPTURE(number);
    CHECK(completion_error(R"({"model":"m","prompt":"x","max_tokens":)" + std::string(number) +
                           "}") ==
          "invalid request body: max_tokens: expected an integer from 1 to 2147483647");
  }
}

TEST_CASE("the range that max_tokens is told is that of the context") {
  const auto request = read_completion_request(
      read_json(R"({"model":"m","prompt":"x","max_tokens":0})").value(), {}, 4'096);
  CHECK(request.error().message ==
        "invalid request body: max_tokens: expected an integer from 1 to 4096");
}

TEST_CASE("the most likely tokens always hold the chosen one") {
  const std::vector<TokenId> ids = tokenizer().encode("a b");
  REQUIRE(ids.size() == 2);
  const CompletionShape shape{{"cmpl-1", 3, "m", ""}, &tokenizer(), true, false, {}};
  const auto tops = [&](std::vector<std::pair<TokenId, float>> top) {
    CompletionChoice choice(shape, 0);
    std::string sse;
    const std::vector<TokenLogprob> logprobs = {{ids[0], -3.0F, std::move(top)}};
    choice.append_chunk("a", std::span(ids).first(1), logprobs, sse);
    return events_of(sse)[0]["choices"][0]["logprobs"]["top_logprobs"][0];
  };
  const std::string other = token_label(tokenizer(), ids[1]);
  CHECK(tops({}) == json({{"a", -3.0}}));
  CHECK(tops({{ids[1], -0.5F}}) == json({{"a", -3.0}, {other, -0.5}}));
  CHECK(tops({{ids[1], -0.5F}, {ids[0], -3.0F}}) == json({{"a", -3.0}, {other, -0.5}}));
}

TEST_CASE("text offsets are counted in the text that is shown, streamed or whole") {
  const TokenId eos = 1;
  // A smiley in pieces, a half of one that stays alone, EOS passed over, plain text.
  const std::vector<TokenId> smiley = tokenizer().encode("\xf0\x9f\x98\x80");
  REQUIRE(smiley.size() > 1);
  const TokenId plain = tokenizer().encode("a")[0];
  std::vector<TokenId> ids = smiley;
  ids.insert(ids.end(), {smiley[0], eos, plain, plain});
  std::vector<std::size_t> expected(smiley.size(), 0);
  expected.insert(expected.end(), {1, 1, 1, 3});
  const CompletionShape shape{{"cmpl-1", 3, "m", ""}, &tokenizer(), true, false, {}, eos};
  CompletionChoice streamed(shape, 0);
  std::vector<CompletionChoice> whole(1, CompletionChoice(shape, 0));
  std::string sse;
  for (const TokenId& id : ids) {
    const std::vector<TokenLogprob> logprobs = {{id, -1.0F, {}}};
    streamed.append_chunk("", std::span(&id, 1), logprobs, sse);
    whole[0].collect("", std::span(&id, 1), logprobs);
  }
  std::vector<std::size_t> offsets;
  for (const json& event : events_of(sse))
    offsets.push_back(event["choices"][0]["logprobs"]["text_offset"][0]);
  CHECK(offsets == expected);
  whole[0].collect_end(
      "\xf0\x9f\x98\x80\xef\xbf\xbd"
      "aa",
      EndReason::kLength,
      {});
  std::string body;
  append_completion(body, shape, whole, {});
  CHECK(json::parse(body)["choices"][0]["logprobs"]["text_offset"] == json(expected));
}

TEST_CASE("no text offset of a whole answer is behind its text") {
  const std::vector<TokenId> ids = tokenizer().encode("a b c");
  REQUIRE(ids.size() == 3);
  const CompletionShape shape{{"cmpl-1", 3, "m", ""}, &tokenizer(), true, false, {}};
  std::vector<CompletionChoice> whole(1, CompletionChoice(shape, 0));
  std::vector<TokenLogprob> logprobs;
  for (const TokenId id : ids)
    logprobs.push_back({id, -1.0F, {}});
  whole[0].collect("a", ids, logprobs);
  whole[0].collect_end("", EndReason::kStop, {" b c", -1});
  std::string body;
  append_completion(body, shape, whole, {});
  CHECK(json::parse(body)["choices"][0]["logprobs"]["text_offset"] == json::array({0, 1, 1}));
}

TEST_CASE(
    "completion chunks carry text, token ids and log probabilities; usage comes in a chunk without "
    "choices") {
  const std::vector<TokenId> ids = tokenizer().encode("Hi you");
  const CompletionShape shape{{"cmpl-1", 3, "m", ""}, &tokenizer(), true, true, {9, 8}};
  CompletionChoice choice(shape, 0);
  std::string sse;
  const std::vector<TokenLogprob> logprobs = {{ids[0], -0.5F, {{ids[0], -0.5F}, {ids[1], -2.0F}}}};
  choice.append_chunk("Hi", std::span(ids).first(1), logprobs, sse);
  choice.append_chunk("", std::span(ids).subspan(1), {}, sse);
  choice.append_last_chunk(" you", EndReason::kStop, {"END", -1}, sse);
  append_completion_usage_chunk(sse, shape.info, {2, 0, 2, 0, false});
  const json events = events_of(sse);
  REQUIRE(events.size() == 4);
  const json& first = events[0]["choices"][0];
  CHECK(events[0]["object"] == "text_completion");
  CHECK(first["text"] == "Hi");
  CHECK(first["token_ids"] == json::array({ids[0]}));
  CHECK(first["prompt_token_ids"] == json::array({9, 8}));
  CHECK(first["logprobs"]["tokens"] == json::array({"Hi"}));
  CHECK(first["logprobs"]["token_logprobs"][0] == -0.5);
  CHECK(first["logprobs"]["top_logprobs"][0].size() == 2);
  CHECK(first["logprobs"]["text_offset"] == json::array({0}));
  CHECK(first["finish_reason"].is_null());
  CHECK(!events[1]["choices"][0].contains("prompt_token_ids"));
  CHECK(events[2]["choices"][0]["finish_reason"] == "stop");
  CHECK(events[2]["choices"][0]["stop_reason"] == "END");
  CHECK(events[3]["choices"].empty());
  CHECK(events[3]["usage"]["total_tokens"] == 4);
}

TEST_CASE("a whole completion has the same fields once") {
  const std::vector<TokenId> ids = tokenizer().encode("Hi you");
  const CompletionShape shape{{"cmpl-1", 3, "m", ""}, &tokenizer(), false, false, {}};
  std::vector<CompletionChoice> choices;
  for (int i = 0; i < 2; ++i) {
    choices.emplace_back(shape, i);
    choices.back().collect("Hi", ids, {});
    choices.back().collect_end(" you", EndReason::kLength, {});
  }
  std::string body;
  append_completion(body, shape, choices, {2, 1, 4, 0, false});
  const json answer = json::parse(body);
  REQUIRE(answer["choices"].size() == 2);
  CHECK(answer["choices"][1]["index"] == 1);
  CHECK(answer["choices"][1]["text"] == "Hi you");
  CHECK(answer["choices"][1]["finish_reason"] == "length");
  CHECK(answer["choices"][1]["stop_reason"].is_null());
  CHECK(answer["choices"][1]["logprobs"].is_null());
  CHECK(!answer["choices"][1].contains("token_ids"));
  CHECK(answer["usage"]["completion_tokens"] == 4);
}
