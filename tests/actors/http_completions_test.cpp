// POST /v1/completions through real sockets: from a body to a submission, from token batches to the
// bytes a client reads.
#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/actors/http_bed.h"
#include "tests/actors/http_client.h"

namespace shoal::test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr const char* kPath = "/v1/completions";
constexpr TokenId kEos = 1;

Json body_of(const HttpResponse& response) {
  return Json::parse(response.body);
}

Json data_of(const std::optional<std::string>& event) {
  REQUIRE(event);
  REQUIRE(event->starts_with("data: "));
  return Json::parse(event->substr(6));
}

std::string text_of(const Json& chunk) {
  return chunk["choices"][0]["text"];
}

std::vector<TokenId> with_eos(std::string_view text) {
  auto ids = ids_of(text);
  ids.push_back(kEos);
  return ids;
}

Json ask(const std::string& prompt, Json more = Json::object()) {
  more["prompt"] = prompt;
  return more;
}

int status_of(HttpBed& bed, const Json& body) {
  return post(bed.port(), kPath, body.dump()).status;
}

std::string message_of(HttpBed& bed, const Json& body) {
  return body_of(post(bed.port(), kPath, body.dump()))["error"]["message"];
}

}  // namespace

TEST_CASE("a plain completion is submitted with OpenAI's defaults and answered whole") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("Once upon").dump());
  const Submission asked = bed.door.next_submission();
  CHECK(*asked.prompt == ids_of("Once upon"));
  CHECK(asked.sampling.max_tokens == 16);
  CHECK(asked.sampling.has_seed);
  CHECK(asked.mode == BasisMode::kBounded);
  CHECK(asked.deadline == bed.clock.now() + 10min);
  bed.door.send_tokens(asked, 0, ids_of(" a time"));
  const std::size_t sent = ids_of(" a time").size();
  bed.door.send_tokens(asked, sent, with_eos(" there"), Finish::kStop);
  const Json body = body_of(*client.read_response());
  CHECK(body["object"] == "text_completion");
  CHECK(body["model"] == "guppy");
  CHECK(body["created"] == 1'800'000'000);
  CHECK(text_of(body) == " a time there");
  CHECK(body["choices"][0]["finish_reason"] == "stop");
  CHECK(body["usage"]["prompt_tokens"] == asked.prompt->size());
  CHECK(body["usage"]["completion_tokens"] == sent + with_eos(" there").size());
}

TEST_CASE("a stream is one event a step, then DONE, and the connection goes on") {
  HttpBed bed;
  HttpClient client(bed.port());
  for (int round = 0; round < 2; ++round) {
    client.post(kPath, ask("x", {{"stream", true}}).dump());
    const Submission asked = bed.door.next_submission();
    const auto first = ids_of("One two");
    bed.door.send_tokens(asked, 0, first);
    const HttpResponse head = client.read_head();
    CHECK(head.fields.at("content-type") == "text/event-stream; charset=utf-8");
    CHECK(head.fields.at("cache-control") == "no-cache");
    CHECK(head.fields.at("x-accel-buffering") == "no");
    CHECK(text_of(data_of(client.read_event())) == "One two");
    bed.door.send_tokens(asked, first.size(), ids_of(" three"));
    CHECK(text_of(data_of(client.read_event())) == " three");
    bed.door.send_tokens(
        asked, first.size() + ids_of(" three").size(), ids_of(" four"), Finish::kLength);
    const Json last = data_of(client.read_event());
    CHECK(text_of(last) == " four");
    CHECK(last["choices"][0]["finish_reason"] == "length");
    CHECK(client.read_event() == "data: [DONE]");
    CHECK(client.read_event() == std::nullopt);
  }
}

TEST_CASE("a request pipelined behind a stream is answered after it") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"stream", true}}).dump());
  client.get("/live");
  const Submission asked = bed.door.next_submission();
  bed.door.send_tokens(asked, 0, with_eos("done"), Finish::kStop);
  client.read_head();
  while (client.read_event()) {
  }
  CHECK(client.read_response()->body == R"({"status":"ok"})");
}

TEST_CASE("an HTTP/1.0 client gets its stream without chunks, ended by the close") {
  HttpBed bed;
  HttpClient client(bed.port());
  const std::string body = ask("x", {{"stream", true}}).dump();
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  bed.door.send_tokens(bed.door.next_submission(), 0, with_eos("done"), Finish::kStop);
  const auto response = client.read_response();
  CHECK(!response->fields.contains("transfer-encoding"));
  CHECK(response->body.starts_with("data: {"));
  CHECK(response->body.ends_with("data: [DONE]\n\n"));
}

TEST_CASE("token ids go through as they are, and come back when asked for") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath,
              Json({{"prompt", {5, 6, 7}}, {"return_token_ids", true}, {"max_tokens", 3}}).dump());
  const Submission asked = bed.door.next_submission();
  CHECK(*asked.prompt == std::vector<TokenId>{5, 6, 7});
  CHECK(asked.sampling.max_tokens == 3);
  const auto ids = ids_of(" abc");
  bed.door.send_tokens(asked, 0, ids, Finish::kLength);
  const Json body = body_of(*client.read_response());
  CHECK(body["choices"][0]["token_ids"] == ids);
}

TEST_CASE("every choice is a submission of its own with one seed, and one response") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"n", 3}, {"seed", 11}}).dump());
  std::vector<Submission> asked;
  for (int i = 0; i < 3; ++i)
    asked.push_back(bed.door.next_submission());
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(asked[i].choice == i);
    CHECK(asked[i].sampling.seed == 11);
  }
  for (const int i : {2, 0, 1})
    bed.door.send_tokens(asked[i], 0, with_eos("answer " + std::to_string(i)), Finish::kStop);
  const Json body = body_of(*client.read_response());
  REQUIRE(body["choices"].size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(body["choices"][i]["index"] == i);
    CHECK(body["choices"][i]["text"] == "answer " + std::to_string(i));
  }
  CHECK(body["usage"]["prompt_tokens"] == asked[0].prompt->size());
}

TEST_CASE("a stop string ends the answer where it begins and frees the rest at the node") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(
      kPath,
      ask("x", {{"stop", "END"}, {"stream", true}, {"stream_options", {{"include_usage", true}}}})
          .dump());
  const Submission asked = bed.door.next_submission();
  const auto kept = ids_of("good text END");
  auto sent = kept;
  for (const TokenId id : ids_of(" more that nobody sees"))
    sent.push_back(id);
  bed.door.send_tokens(asked, 0, sent);
  const auto stopped = bed.door.next_stop();
  CHECK(stopped.request == asked.request);
  CHECK(stopped.attempt == asked.attempt);
  CHECK(stopped.end == static_cast<Position>(asked.prompt->size() + kept.size()));
  client.read_head();
  std::string text;
  Json last;
  for (auto event = client.read_event(); event && event != "data: [DONE]";
       event = client.read_event()) {
    const Json chunk = data_of(event);
    if (!chunk["choices"].empty()) {
      text += text_of(chunk);
      if (!chunk["choices"][0]["finish_reason"].is_null())
        CHECK(chunk["choices"][0]["finish_reason"] == "stop");
    }
    if (chunk.contains("usage") && !chunk["usage"].is_null())
      last = chunk["usage"];
  }
  CHECK(text == "good text ");
  CHECK(last["completion_tokens"] == kept.size());
}

TEST_CASE("a stop token of the request ends the answer and is not shown") {
  HttpBed bed;
  HttpClient client(bed.port());
  const TokenId stop = ids_of(" stop")[0];
  client.post(kPath, ask("x", {{"stop_token_ids", {stop}}}).dump());
  const Submission asked = bed.door.next_submission();
  CHECK(asked.sampling.stop_token_ids == std::vector{stop});
  auto ids = ids_of("text");
  ids.push_back(stop);
  bed.door.send_tokens(asked, 0, ids, Finish::kStop);
  const Json body = body_of(*client.read_response());
  CHECK(text_of(body) == "text");
  CHECK(body["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("a character cut in half is not shown before its other half came") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"stream", true}}).dump());
  const Submission asked = bed.door.next_submission();
  const auto ids = ids_of("\xf0\x9f\x98\x80");
  REQUIRE(ids.size() > 1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    bed.door.send_tokens(asked, i, {ids[i]});
  bed.door.send_tokens(asked, ids.size(), {kEos}, Finish::kStop);
  client.read_head();
  std::string text;
  for (auto event = client.read_event(); event && event != "data: [DONE]";
       event = client.read_event())
    text += text_of(data_of(event));
  CHECK(text == "\xf0\x9f\x98\x80");
}

TEST_CASE("log probabilities are asked for and come back") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"logprobs", 1}, {"max_tokens", 1}}).dump());
  const Submission asked = bed.door.next_submission();
  CHECK(asked.sampling.logprobs == 1);
  const TokenId id = ids_of("a")[0];
  TokenRun run;
  run.first_position = static_cast<Position>(asked.prompt->size());
  run.tokens = {id};
  run.logprobs = {{.token = id, .logprob = -0.5F, .top = {{id, -0.5F}}}};
  run.finish = Finish::kLength;
  run.basis = Basis{};
  bed.door.send(asked, run);
  const Json logprobs = body_of(*client.read_response())["choices"][0]["logprobs"];
  CHECK(logprobs["token_logprobs"] == Json::array({-0.5}));
  CHECK(logprobs["tokens"] == Json::array({"a"}));
}

TEST_CASE("replay, timeout and tenant reach the node") {
  HttpConfig config;
  config.keys = {{.key = "k", .tenant = "team"}};
  HttpBed bed(config);
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"replay", "exact"}, {"timeout", 2.5}}).dump(), "x-api-key: k\r\n");
  Submission asked = bed.door.next_submission();
  CHECK(asked.mode == BasisMode::kExact);
  CHECK(asked.deadline == bed.clock.now() + 2'500ms);
  CHECK(asked.tenant == "team");
  HttpClient other(bed.port());
  other.post(kPath, ask("x").dump(), "x-api-key: k\r\nx-request-timeout: 30\r\n");
  CHECK(bed.door.next_submission().deadline == bed.clock.now() + 30s);
  HttpClient third(bed.port());
  third.post(kPath, ask("x", {{"timeout", 1e9}}).dump(), "x-api-key: k\r\n");
  CHECK(bed.door.next_submission().deadline == bed.clock.now() + 60min);
}

TEST_CASE("a time limit in the header that is no positive number is refused") {
  HttpBed bed;
  for (const char* value : {"0", "-1", "soon", "1s", "", "nan", "inf", "1e999", "5,5"}) {
    CAPTURE(value);
    const HttpResponse reply = post(bed.port(),
                                    kPath,
                                    ask("x", {{"timeout", 5}}).dump(),
                                    "x-request-timeout: " + std::string(value) + "\r\n");
    CHECK(reply.status == 400);
    CHECK(body_of(reply)["error"]["message"] ==
          "invalid request header: x-request-timeout: expected a number of seconds above 0");
  }
  CHECK(bed.door.submissions_seen() == 0);
}

TEST_CASE("a null model is the served one, a negative seed is its bits") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"model", nullptr}, {"seed", -1}}).dump());
  const Submission asked = bed.door.next_submission();
  CHECK(asked.sampling.seed == 0xffff'ffff'ffff'ffffULL);
  bed.door.send_tokens(asked, 0, with_eos("ok"), Finish::kStop);
  CHECK(body_of(*client.read_response())["model"] == "guppy");
}

TEST_CASE("limits that contradict each other or the bounds say which") {
  HttpBed bed;
  CHECK(message_of(bed, ask("x", {{"max_tokens", 3'000'000'000}})).find("1 to 2147483647") !=
        std::string::npos);
  CHECK(message_of(bed, ask("x", {{"max_tokens", 1e19}})).find("max_tokens") != std::string::npos);
  CHECK(message_of(bed, ask("x", {{"max_tokens", 18446744073709551615ULL}}))
            .find("1 to 2147483647") != std::string::npos);
  CHECK(status_of(bed, ask("x", {{"max_tokens", 5}, {"min_tokens", 6}})) == 400);
  CHECK(status_of(bed, ask("x", {{"min_tokens", 17}})) == 400);
  CHECK(message_of(bed, ask("x", {{"max_tokens", 5}, {"min_tokens", 6}})) ==
        "invalid request body: min_tokens: 6 is more than max_tokens, which is 5");
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"max_tokens", 5}, {"min_tokens", 5}}).dump());
  CHECK(bed.door.next_submission().sampling.min_tokens == 5);
}

TEST_CASE("text offsets leave out an EOS that is passed over") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"logprobs", 0}, {"ignore_eos", true}, {"max_tokens", 3}}).dump());
  const Submission asked = bed.door.next_submission();
  TokenRun run;
  run.first_position = static_cast<Position>(asked.prompt->size());
  run.tokens = {ids_of("ab")[0], kEos, ids_of("c")[0]};
  for (const TokenId id : run.tokens)
    run.logprobs.push_back({.token = id, .logprob = -0.5F, .top = {}});
  run.finish = Finish::kLength;
  run.basis = Basis{};
  bed.door.send(asked, run);
  const Json body = body_of(*client.read_response());
  const std::size_t first = guppy_tokenizer()->bytes(ids_of("ab")[0]).size();
  CHECK(text_of(body).size() == first + 1);
  const Json logprobs = body["choices"][0]["logprobs"];
  CHECK(logprobs["text_offset"] == Json::array({0, first, first}));
  for (const Json& top : logprobs["top_logprobs"])
    CHECK(top.size() == 1);
}

TEST_CASE("a prompt that does not fit says both numbers") {
  HttpBed bed({}, 100);
  const Json long_prompt = Json({{"prompt", std::vector<int>(100, 5)}});
  CHECK(status_of(bed, long_prompt) == 400);
  CHECK(message_of(bed, long_prompt)
            .find("maximum context length is 100 tokens. However, your prompt has 100 tokens") !=
        std::string::npos);
  const Json long_answer = Json({{"prompt", std::vector<int>(60, 5)}, {"max_tokens", 50}});
  CHECK(status_of(bed, long_answer) == 400);
  CHECK(message_of(bed, long_answer)
            .find("requested 110 tokens (60 in the prompt, 50 for the answer)") !=
        std::string::npos);
  HttpClient client(bed.port());
  client.post(kPath, Json({{"prompt", std::vector<int>(95, 5)}}).dump());
  CHECK(bed.door.next_submission().sampling.max_tokens == 5);
}

TEST_CASE("prompts and fields that cannot be right get 400, an unknown model 404") {
  HttpBed bed;
  CHECK(status_of(bed, ask("")) == 400);
  CHECK(status_of(bed, Json::object()) == 400);
  CHECK(status_of(bed, {{"prompt", 5}}) == 400);
  CHECK(status_of(bed, {{"prompt", Json::array()}}) == 400);
  CHECK(status_of(bed, {{"prompt", {1, -1}}}) == 400);
  CHECK(status_of(bed, {{"prompt", {1, 9'999'999}}}) == 400);
  CHECK(status_of(bed, ask("x", {{"max_tokens", "12"}})) == 400);
  CHECK(status_of(bed, ask("x", {{"max_tokens", -1}})) == 400);
  CHECK(status_of(bed, ask("x", {{"temperature", 5}})) == 400);
  CHECK(status_of(bed, ask("x", {{"n", 0}})) == 400);
  CHECK(status_of(bed, ask("x", {{"n", 99}})) == 400);
  CHECK(status_of(bed, ask("x", {{"model", "gpt"}})) == 404);
  CHECK(bed.door.submissions_seen() == 0);
}

TEST_CASE("a refusal of the node before the first token has a status and says when to come back") {
  HttpBed bed;
  for (const bool stream : {false, true}) {
    HttpClient client(bed.port());
    client.post(kPath, ask("x", {{"stream", stream}}).dump());
    bed.door.fail(
        bed.door.next_submission(), {Code::kNoCapacity, "the queue is full"}, false, 2'500ms);
    const auto reply = client.read_response();
    CHECK(reply->status == 503);
    CHECK(reply->fields.at("retry-after") == "3");
    CHECK(body_of(*reply)["error"]["message"] == "the queue is full");
    CHECK(body_of(*reply)["error"]["code"] == "no_capacity");
  }
}

TEST_CASE("a failure after the first token is an event, then the end without DONE") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"stream", true}, {"n", 2}}).dump());
  const Submission asked = bed.door.next_submission();
  const Submission other = bed.door.next_submission();
  bed.door.send_tokens(asked, 0, ids_of("some"));
  client.read_head();
  client.read_event();
  bed.door.fail(asked, {Code::kInternal, "broken"}, false);
  CHECK(data_of(client.read_event())["error"]["message"] == "broken");
  CHECK(client.read_event() == std::nullopt);
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(bed.door.next_closed() == other.request);
}

TEST_CASE("a lost attempt goes on elsewhere and the client sees one text") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"stream", true}}).dump());
  const Submission first = bed.door.next_submission();
  const auto ids = ids_of("One two three");
  bed.door.send_tokens(first, 0, {ids[0]});
  client.read_head();
  std::string text = text_of(data_of(client.read_event()));
  bed.door.fail(first, {Code::kPeerLost, "a worker died"}, true);
  const Submission second = bed.door.next_submission();
  CHECK(second.attempt == AttemptId{2});
  CHECK(second.forced == std::vector{ids[0]});
  CHECK(second.sampling == first.sampling);
  CHECK(second.basis.has_value());
  bed.door.send_tokens(first, 1, {ids[1], ids[1]});  // a zombie's
  CHECK(bed.door.next_stop().attempt == AttemptId{1});
  bed.door.send_tokens(second, 1, {ids.begin() + 1, ids.end()}, Finish::kLength);
  for (auto event = client.read_event(); event && event != "data: [DONE]";
       event = client.read_event())
    text += text_of(data_of(event));
  CHECK(text == "One two three");
}

TEST_CASE("a client that leaves frees every choice at once") {
  HttpBed bed;
  for (const bool stream : {false, true}) {
    HttpClient client(bed.port());
    client.post(kPath, ask("x", {{"stream", stream}, {"n", 2}}).dump());
    const Submission first = bed.door.next_submission();
    const Submission second = bed.door.next_submission();
    if (stream) {
      bed.door.send_tokens(first, 0, ids_of("a"));
      client.read_head();
    }
    client.close();
    CHECK(bed.door.next_closed() == first.request);
    CHECK(bed.door.next_closed() == second.request);
  }
}

TEST_CASE("a client that half-closes while it waits is cut") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"stream", true}}).dump());
  const Submission asked = bed.door.next_submission();
  client.half_close();
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(client.is_closed());
}

TEST_CASE("a client that never reads is cut when too much is pending") {
  HttpBed bed({}, 1'000'000);
  HttpClient client(bed.port(), 4'096);
  client.post(kPath, ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump());
  const Submission asked = bed.door.next_submission();
  const auto& too_slow =
      bed.server->metrics().clients_gone[static_cast<std::size_t>(ClientGone::kTooSlow)];
  std::size_t sent = 0;
  for (; too_slow == 0 && sent < 800'000; sent += 2'000) {
    bed.door.send_tokens(asked, sent, std::vector<TokenId>(2'000, ids_of("abc")[0]));
    get(bed.port(), "/live");
  }
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(too_slow == 1);
}

TEST_CASE("a client that stops reading is cut after its time") {
  HttpConfig config;
  config.limits.pending_bytes = 64 << 20;
  HttpBed bed(config, 1'000'000);
  HttpClient client(bed.port(), 4'096);
  client.post(kPath, ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump());
  const Submission asked = bed.door.next_submission();
  bed.door.send_tokens(
      asked,
      0,
      std::vector<TokenId>(500'000, ids_of("abc")[0]));  // one event of half a megabyte and more
  const auto& stalled =
      bed.server->metrics().clients_gone[static_cast<std::size_t>(ClientGone::kStalled)];
  while (bed.server->metrics().bytes_sent.load() == 0)
    std::this_thread::yield();
  for (int i = 0; i < 1'000 && stalled == 0; ++i) {
    bed.clock.advance(1s);
    get(bed.port(), "/live");
  }
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(stalled == 1);
}

TEST_CASE("while nothing comes, a stream says that it lives") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"stream", true}}).dump());
  const Submission asked = bed.door.next_submission();
  bed.clock.advance(10s);
  CHECK(client.read_head().status == 200);
  CHECK(client.read_event() == ": keep-alive");
  bed.door.fail(asked, {Code::kNoCapacity, "too late for a status"}, false);
  CHECK(data_of(client.read_event())["error"]["message"] == "too late for a status");
}

TEST_CASE("a node that forgets a request does not make its client wait beyond the deadline") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kPath, ask("x", {{"timeout", 5}}).dump());
  const Submission asked = bed.door.next_submission();
  bed.clock.advance(7s);
  CHECK(client.read_response()->status == 504);
  CHECK(bed.door.next_closed() == asked.request);
}

TEST_CASE("beyond the answers in flight a client is told to come back, per server and per key") {
  HttpConfig config;
  config.keys = {
      {.key = "a", .tenant = "a"}, {.key = "b", .tenant = "b"}, {.key = "c", .tenant = "c"}};
  config.limits.choices_per_key = 3;
  config.limits.choices_in_flight = 5;
  HttpBed bed(config);
  HttpClient first(bed.port());
  first.post(kPath, ask("x", {{"n", 3}}).dump(), "x-api-key: a\r\n");
  bed.door.next_submission();
  const HttpResponse same_key = post(bed.port(), kPath, ask("x").dump(), "x-api-key: a\r\n");
  CHECK(same_key.status == 429);
  CHECK(same_key.fields.at("retry-after") == "1");
  HttpClient second(bed.port());
  second.post(kPath, ask("x", {{"n", 2}}).dump(), "x-api-key: b\r\n");
  for (int i = 0; i < 4; ++i)
    bed.door.next_submission();
  CHECK(post(bed.port(), kPath, ask("x").dump(), "x-api-key: c\r\n").status == 429);
  second.close();
  bed.door.next_closed();
  bed.door.next_closed();
  HttpClient third(bed.port());
  third.post(kPath, ask("x", {{"n", 2}}).dump(), "x-api-key: c\r\n");
  CHECK(bed.door.next_submission().tenant == "c");
}

TEST_CASE("a large prompt is tokenised aside and comes out the same") {
  HttpBed bed({}, 1'000'000);
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += "word" + std::to_string(i) + " ";
  HttpClient client(bed.port());
  client.post(kPath, ask(text).dump());
  CHECK(*bed.door.next_submission().prompt == ids_of(text));
  HttpClient gone(bed.port());
  gone.post(kPath, ask(text).dump());
  gone.close();  // whether it is prepared by now or not: nothing is left behind
  CHECK(get(bed.port(), "/live").status == 200);
}

TEST_CASE("drain lets the answers in progress finish and takes no new ones") {
  HttpBed bed;
  HttpClient busy(bed.port());
  HttpClient idle(bed.port());
  idle.get("/ready");
  CHECK(idle.read_response()->status == 200);
  busy.post(kPath, ask("x", {{"stream", true}}).dump());
  const Submission asked = bed.door.next_submission();
  bool complete = false;
  std::jthread drainer([&bed, &complete] { complete = bed.server->drain(bed.clock.now() + 30s); });
  HttpResponse ready;
  do {
    idle.get("/ready");
    ready = idle.read_response().value_or(HttpResponse{});
  } while (ready.status == 200);
  CHECK(ready.status == 503);
  CHECK(ready.fields.at("connection") == "close");
  bed.door.send_tokens(asked, 0, with_eos("the end"), Finish::kStop);
  busy.read_head();
  std::string last;
  for (auto event = busy.read_event(); event; event = busy.read_event())
    last = *event;
  drainer.join();
  CHECK(last == "data: [DONE]");
  CHECK(complete);
}

TEST_CASE("an answer that drain cuts at its deadline ends with an error, and the node is told") {
  for (const bool by_drain : {true, false}) {
    HttpBed bed;
    HttpClient streamed(bed.port());
    streamed.post(kPath, ask("x", {{"stream", true}}).dump());
    const Submission first = bed.door.next_submission();
    bed.door.send_tokens(first, 0, ids_of("some"));
    streamed.read_head();
    CHECK(text_of(data_of(streamed.read_event())) == "some");
    HttpClient whole(bed.port());
    whole.post(kPath, ask("x").dump());
    const Submission second = bed.door.next_submission();
    bed.clock.advance(1s);
    if (by_drain) {
      CHECK(!bed.server->drain(bed.clock.now()));
    } else {
      bed.server->stop();
    }
    const Json error = data_of(streamed.read_event())["error"];
    CHECK(error["code"] == "draining");
    CHECK(error["type"] == "service_unavailable_error");
    CHECK(error["message"].get<std::string>().find("shutting down") != std::string::npos);
    CHECK(streamed.read_event() == std::nullopt);
    CHECK(streamed.is_closed());
    const auto reply = whole.read_response();
    REQUIRE(reply);
    CHECK(reply->status == 503);
    CHECK(reply->fields.at("retry-after") == "1");
    CHECK(reply->fields.at("connection") == "close");
    CHECK(body_of(*reply)["error"] == error);
    CHECK(whole.is_closed());
    std::vector<RequestId> closed = {bed.door.next_closed(), bed.door.next_closed()};
    std::ranges::sort(closed, {}, &RequestId::value);
    CHECK(closed == std::vector{first.request, second.request});
    const HttpMetrics& metrics = bed.server->metrics();
    CHECK(metrics.clients_gone[static_cast<std::size_t>(ClientGone::kShutdown)] == 2);
    CHECK(metrics.busy_connections == 0);
  }
}

TEST_CASE("a client that takes nothing does not hold up the end") {
  HttpConfig config;
  config.limits.pending_bytes = 64 << 20;
  HttpBed bed(config, 1'000'000);
  HttpClient client(bed.port(), 4'096);
  client.post(kPath, ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump());
  const Submission asked = bed.door.next_submission();
  bed.door.send_tokens(asked, 0, std::vector<TokenId>(500'000, ids_of("abc")[0]));
  while (bed.server->metrics().bytes_sent.load() == 0)
    std::this_thread::yield();
  CHECK(!bed.server->drain(bed.clock.now()));
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(bed.server->metrics().busy_connections == 0);
}

TEST_CASE(
    "many streams at once, cut and left at random: each client reads its own text and nothing is "
    "left behind") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  HttpConfig config;
  config.shards = 2;
  HttpBed bed(config);

  struct Run {
    HttpClient client;
    Submission asked;
    std::vector<TokenId> ids;
    std::string text;
    std::size_t sent = 0;
    bool leaves = false;
  };

  std::vector<Run> runs;
  for (int i = 0; i < 200; ++i) {
    HttpClient client(bed.port());
    client.post(kPath, ask("x", {{"stream", true}, {"max_tokens", 500}}).dump());
    Submission asked = bed.door.next_submission();
    const std::string text =
        "stream " + std::to_string(i) + " says " + std::string(random() % 60, 'z') + " and ends";
    runs.push_back({std::move(client), std::move(asked), ids_of(text), text, 0, random() % 4 == 0});
  }
  std::size_t open = runs.size();
  while (open > 0) {
    Run& run = runs[random() % runs.size()];
    if (run.sent == run.ids.size())
      continue;
    const std::size_t n = std::min<std::size_t>(run.ids.size() - run.sent, 1 + random() % 8);
    const bool last = run.sent + n == run.ids.size();
    bed.door.send_tokens(run.asked,
                         run.sent,
                         {run.ids.begin() + run.sent, run.ids.begin() + run.sent + n},
                         last && !run.leaves ? Finish::kLength : Finish::kNone);
    run.sent += n;
    if (!last)
      continue;
    --open;
    if (run.leaves)
      run.client.close();
  }
  for (Run& run : runs) {
    if (run.leaves)
      continue;
    run.client.read_head();
    std::string text;
    for (auto event = run.client.read_event(); event && event != "data: [DONE]";
         event = run.client.read_event())
      text += text_of(data_of(event));
    CHECK(text == run.text);
  }
  for (const Run& run : runs) {
    if (run.leaves)
      bed.door.next_closed();
  }
  const HttpMetrics& metrics = bed.server->metrics();
  CHECK(metrics.choices_running == 0);
  CHECK(metrics.choices_waiting == 0);
  CHECK(metrics.busy_connections == 0);
}

}  // namespace shoal::test
