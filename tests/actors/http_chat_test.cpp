// POST /v1/chat/completions through real sockets: reasoning, content, tool calls, one text or many
// choices, streamed or whole.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/json_reader.h"
#include "tests/actors/http_bed.h"
#include "tests/actors/http_client.h"

namespace shoal::test {
namespace {

using Json = nlohmann::json;

constexpr const char* kPath = "/v1/chat/completions";
constexpr TokenId kEos = 1;

Json hello(Json more = Json::object()) {
  more["model"] = "guppy";
  more["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
  return more;
}

TokenId control(std::string_view spelling) {
  return guppy_tokenizer()->added_id(spelling).value();
}

// Reasoning, then content, then EOS: what a thinking model says.
std::vector<TokenId> thought(std::string_view reasoning, std::string_view content) {
  auto ids = ids_of(reasoning);
  ids.push_back(control("</think>"));
  for (const TokenId id : ids_of(content))
    ids.push_back(id);
  ids.push_back(kEos);
  return ids;
}

Json ask_whole(HttpBed& bed, const Json& body, const std::vector<TokenId>& answer) {
  HttpClient client(bed.port());
  client.post(kPath, body.dump());
  bed.door.send_tokens(bed.door.next_submission(), 0, answer, Finish::kStop);
  const auto response = client.read_response();
  REQUIRE(response);
  REQUIRE(response->status == 200);
  return Json::parse(response->body);
}

// All chunks of a stream whose answer comes token by token.
std::vector<Json> ask_stream(HttpBed& bed, const Json& body, const std::vector<TokenId>& answer) {
  HttpClient client(bed.port());
  client.post(kPath, body.dump());
  const Submission asked = bed.door.next_submission();
  for (std::size_t i = 0; i < answer.size(); ++i) {
    bed.door.send_tokens(
        asked, i, {answer[i]}, i + 1 == answer.size() ? Finish::kStop : Finish::kNone);
  }
  client.read_head();
  std::vector<Json> chunks;
  std::optional<std::string> event;
  for (event = client.read_event(); event && event != "data: [DONE]"; event = client.read_event()) {
    chunks.push_back(Json::parse(event->substr(6)));
  }
  CHECK(event == "data: [DONE]");
  return chunks;
}

std::string joined(const std::vector<Json>& chunks, const char* member) {
  std::string text;
  for (const Json& chunk : chunks) {
    if (chunk["choices"].empty())
      continue;
    const Json& delta = chunk["choices"][0]["delta"];
    if (delta.contains(member) && delta[member].is_string())
      text += delta[member].get<std::string>();
  }
  return text;
}

}  // namespace

TEST_CASE("a chat is rendered as the codec does and answered with reasoning and content apart") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, hello().dump());
  const Submission asked = bed.door.next_submission();
  const auto profile =
      make_profile(detect_generation(*guppy_tokenizer()), *guppy_tokenizer()).value();
  const auto request = read_chat_request(read_json(hello().dump()).value(), profile).value();
  CHECK(*asked.prompt == encode_prompt(*guppy_tokenizer(), render_chat(request, profile)));
  CHECK(asked.sampling.max_tokens == 1'024 - static_cast<int>(asked.prompt->size()));
  bed.door.send_tokens(asked, 0, thought("I think", "Hello there"), Finish::kStop);
  const Json body = Json::parse(client.read_response()->body);
  CHECK(body["object"] == "chat.completion");
  CHECK(body["id"].get<std::string>().starts_with("chatcmpl-"));
  const Json& message = body["choices"][0]["message"];
  CHECK(message["role"] == "assistant");
  CHECK(message["reasoning_content"] == "I think");
  CHECK(message["content"] == "Hello there");
  CHECK(body["choices"][0]["finish_reason"] == "stop");
  CHECK(body["usage"]["prompt_tokens"] == asked.prompt->size());
  CHECK(body["usage"]["completion_tokens"] == thought("I think", "Hello there").size());
  CHECK(body["usage"]["completion_tokens_details"]["reasoning_tokens"] == ids_of("I think").size());
}

TEST_CASE("a streamed chat joins to the same text, role first, usage last") {
  HttpBed bed;
  const auto chunks =
      ask_stream(bed,
                 hello({{"stream", true}, {"stream_options", {{"include_usage", true}}}}),
                 thought("I think", "Hello there"));
  REQUIRE(chunks.size() > 2);
  CHECK(chunks.front()["choices"][0]["delta"]["role"] == "assistant");
  CHECK(joined(chunks, "reasoning_content") == "I think");
  CHECK(joined(chunks, "content") == "Hello there");
  CHECK(chunks.back()["usage"]["completion_tokens"] == thought("I think", "Hello there").size());
}

TEST_CASE("usage says how much of the prompt was not computed, whole and streamed") {
  HttpBed bed;
  bed.door.set_cached_tokens(3);
  const Json whole = ask_whole(bed, hello(), thought("I", "Hello"))["usage"];
  const Json streamed =
      ask_stream(bed,
                 hello({{"stream", true}, {"stream_options", {{"include_usage", true}}}}),
                 thought("I", "Hello"))
          .back()["usage"];
  CHECK(whole["prompt_tokens_details"]["cached_tokens"] == 3);
  CHECK(whole["prompt_cache_hit_tokens"] == 3);
  CHECK(whole["prompt_cache_miss_tokens"] == whole["prompt_tokens"].get<int>() - 3);
  CHECK(streamed == whole);
}

TEST_CASE("without thinking the answer is content from its first token") {
  HttpBed bed;
  auto answer = ids_of("Plain");
  answer.push_back(kEos);
  const Json body = ask_whole(bed, hello({{"thinking", {{"type", "disabled"}}}}), answer);
  CHECK(body["choices"][0]["message"]["content"] == "Plain");
}

TEST_CASE("every choice of a chat streams under its own index and ends once") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath,
              hello({{"stream", true}, {"n", 3}, {"thinking", {{"type", "disabled"}}}}).dump());
  std::vector<Submission> asked;
  for (int i = 0; i < 3; ++i)
    asked.push_back(bed.door.next_submission());
  for (const std::size_t i : {1, 2, 0}) {
    bed.door.send_tokens(asked[i], 0, ids_of("choice " + std::to_string(i)), Finish::kLength);
  }
  client.read_head();
  std::vector<std::string> texts(3);
  std::vector<int> ends(3);
  int with_usage = 0;
  for (auto event = client.read_event(); event && event != "data: [DONE]";
       event = client.read_event()) {
    const Json chunk = Json::parse(event->substr(6));
    const Json& choice = chunk["choices"][0];
    const std::size_t index = choice["index"];
    if (choice["delta"].contains("content") && choice["delta"]["content"].is_string()) {
      texts[index] += choice["delta"]["content"].get<std::string>();
    }
    ends[index] += choice["finish_reason"] == "length" ? 1 : 0;
    with_usage += chunk["usage"].is_null() ? 0 : 1;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(texts[i] == "choice " + std::to_string(i));
    CHECK(ends[i] == 1);
  }
  CHECK(with_usage == 1);
}

TEST_CASE("a tool call comes out as name and arguments, whole and streamed") {
  HttpBed bed;
  const Json tools = {
      {{"type", "function"},
       {"function",
        {{"name", "clock"},
         {"description", "Tells the time."},
         {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}}}}};
  const auto profile =
      make_profile(detect_generation(*guppy_tokenizer()), *guppy_tokenizer()).value();
  const std::string d = profile.dsml.spelling;
  const auto ids = guppy_tokenizer()->encode_parsed(
      "\n\n<" + d + profile.calls_tag + ">\n<" + d + profile.invoke_tag + " name=\"clock\">\n<" +
      d + profile.parameter_tag + " name=\"city\" string=\"true\">Oslo</" + d +
      profile.parameter_tag + ">\n</" + d + profile.invoke_tag + ">\n</" + d + profile.calls_tag +
      ">");
  auto answer = ids;
  answer.push_back(kEos);
  const Json request = hello({{"tools", tools}, {"thinking", {{"type", "disabled"}}}});
  const Json whole = ask_whole(bed, request, answer);
  CHECK(whole["choices"][0]["finish_reason"] == "tool_calls");
  const Json& call = whole["choices"][0]["message"]["tool_calls"][0];
  CHECK(call["function"]["name"] == "clock");
  CHECK(Json::parse(call["function"]["arguments"].get<std::string>()) == Json{{"city", "Oslo"}});
  CHECK(call["id"].get<std::string>().starts_with("call_00_"));

  Json streamed = request;
  streamed["stream"] = true;
  std::string name, arguments;
  for (const Json& chunk : ask_stream(bed, streamed, answer)) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (!delta.contains("tool_calls"))
      continue;
    const Json& function = delta["tool_calls"][0]["function"];
    if (function.contains("name"))
      name += function["name"].get<std::string>();
    arguments += function["arguments"].get<std::string>();
  }
  CHECK(name == "clock");
  CHECK(Json::parse(arguments) == Json{{"city", "Oslo"}});
}

TEST_CASE("a stop string of a chat is looked for in its content and stops the node") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, hello({{"stop", "END"}, {"thinking", {{"type", "disabled"}}}}).dump());
  const Submission asked = bed.door.next_submission();
  const auto kept = ids_of("text END");
  auto sent = kept;
  for (const TokenId id : ids_of(" more"))
    sent.push_back(id);
  bed.door.send_tokens(asked, 0, sent);
  CHECK(bed.door.next_stop().end == static_cast<Position>(asked.prompt->size() + kept.size()));
  const Json body = Json::parse(client.read_response()->body);
  CHECK(body["choices"][0]["message"]["content"] == "text ");
  CHECK(body["usage"]["completion_tokens"] == kept.size());
}

TEST_CASE("log probabilities of a chat stand beside their tokens") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath,
              hello({{"logprobs", true}, {"top_logprobs", 1}, {"thinking", {{"type", "disabled"}}}})
                  .dump());
  const Submission asked = bed.door.next_submission();
  CHECK(asked.sampling.logprobs == 1);
  TokenRun run;
  run.first_position = static_cast<Position>(asked.prompt->size());
  run.tokens = ids_of("Hello");
  run.tokens.push_back(kEos);
  for (const TokenId id : run.tokens)
    run.logprobs.push_back({.token = id, .logprob = -1, .top = {{id, -1.0F}}});
  run.finish = Finish::kStop;
  run.stop_token = kEos;
  bed.door.send(asked, run);
  const Json entries =
      Json::parse(client.read_response()->body)["choices"][0]["logprobs"]["content"];
  REQUIRE(entries.size() == ids_of("Hello").size());
  CHECK(entries[0]["logprob"] == -1.0);
}

TEST_CASE("chats that cannot be right get 400 with the field's name") {
  HttpBed bed;
  const auto message = [&bed](const Json& body) {
    const HttpResponse response = post(bed.port(), kPath, body.dump());
    CHECK(response.status == 400);
    return Json::parse(response.body)["error"]["message"].get<std::string>();
  };
  CHECK(message({{"model", "guppy"}}).find("messages") != std::string::npos);
  CHECK(message({{"model", "guppy"}, {"messages", Json::array()}}).find("messages") !=
        std::string::npos);
  CHECK(message(hello({{"max_tokens", "12"}})).find("max_tokens") != std::string::npos);
  CHECK(message(hello({{"max_tokens", 2'000}})).find("maximum context length is 1024 tokens") !=
        std::string::npos);
  Json image = hello();
  image["messages"][0]["content"] = {
      {{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64,AAAA"}}}}};
  CHECK(message(image).find("images") != std::string::npos);
  Json unknown = hello();
  unknown["model"] = "gpt";
  CHECK(post(bed.port(), kPath, unknown.dump()).status == 404);
  CHECK(bed.door.submissions_seen() == 0);
}

TEST_CASE("an error of a chat names the field as the client wrote it") {
  HttpBed bed;
  const auto error = [&bed](const Json& body) {
    return Json::parse(post(bed.port(), kPath, body.dump()).body)["error"];
  };
  Json body = hello({{"thinking", {{"type", "disabled"}}},
                     {"tools", {{{"type", "function"}, {"function", {{"name", "clock"}}}}}},
                     {"tool_choice", {{"type", "function"}, {"function", {{"name", "zz"}}}}}});
  CHECK(error(body)["param"] == "tool_choice");
  CHECK(error(body)["message"] ==
        "Invalid value for 'tool_choice': no function named 'zz' was specified in the 'tools' "
        "parameter.");
  body["tools"][0]["function"]["name"] = "a b";
  CHECK(error(body)["param"] == "tools[0].function.name");
  body = hello();
  body["messages"][0]["role"] = "nobody";
  CHECK(error(body)["param"] == "messages[0]");
  body["messages"] = Json::array();
  CHECK(error(body)["param"] == "messages");
}

TEST_CASE("a call of the history without its id is refused: nothing could say what it got back") {
  HttpBed bed;
  Json body = hello();
  const Json call = {{"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  body["messages"].push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "a"}, {"content", "1"}});
  const HttpResponse refused = post(bed.port(), kPath, body.dump());
  CHECK(refused.status == 400);
  const Json error = Json::parse(refused.body)["error"];
  CHECK(error["param"] == "messages[1].tool_calls[0].id");
  CHECK(error["message"] ==
        "invalid request body: messages[1].tool_calls[0].id: missing; send the id that the call "
        "came with");
  body["messages"][1]["tool_calls"][0]["id"] = "a";
  CHECK(ask_whole(bed, body, thought("hm", "ok"))["model"] == "guppy");
}

TEST_CASE("chat answers where DeepSeek's clients ask, without a model's name as well") {
  HttpBed bed;
  HttpClient client(bed.port());
  Json body = hello({{"thinking", {{"type", "disabled"}}}});
  body.erase("model");
  client.post("/chat/completions", body.dump());
  bed.door.send_tokens(bed.door.next_submission(), 0, ids_of("ok"), Finish::kLength);
  CHECK(Json::parse(client.read_response()->body)["model"] == "guppy");
}

TEST_CASE("chat takes a null model and refuses more tokens at least than at most") {
  HttpBed bed;
  Json body = hello({{"seed", -2}, {"max_tokens", 4}});
  body["model"] = nullptr;
  CHECK(ask_whole(bed, body, thought("hm", "ok"))["model"] == "guppy");
  body["min_tokens"] = 5;
  CHECK(post(bed.port(), kPath, body.dump()).status == 400);
  CHECK(bed.door.submissions_seen() == 1);
}

}  // namespace shoal::test
