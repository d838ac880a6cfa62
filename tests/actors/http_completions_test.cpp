// POST /v1/completions through real sockets: from a body to a submission, from token batches to the
// bytes a client reads.
#include "tests/actors/http_completions.h"

#include <chrono>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace shoal::test {

using namespace std::chrono_literals;

TEST_CASE("a plain completion is submitted with OpenAI's defaults and answered whole") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kCompletions, ask("Once upon").dump());
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
    client.post(kCompletions, ask("x", {{"stream", true}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}}).dump());
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
  client.post(kCompletions,
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
  client.post(kCompletions, ask("x", {{"n", 3}, {"seed", 11}}).dump());
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
      kCompletions,
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
  client.post(kCompletions, ask("x", {{"stop_token_ids", {stop}}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}}).dump());
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
  client.post(kCompletions, ask("x", {{"logprobs", 1}, {"max_tokens", 1}}).dump());
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

TEST_CASE("text offsets leave out an EOS that is passed over") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.post(kCompletions,
              ask("x", {{"logprobs", 0}, {"ignore_eos", true}, {"max_tokens", 3}}).dump());
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

TEST_CASE("a refusal of the node before the first token has a status and says when to come back") {
  HttpBed bed;
  for (const bool stream : {false, true}) {
    HttpClient client(bed.port());
    client.post(kCompletions, ask("x", {{"stream", stream}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}, {"n", 2}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}}).dump());
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

TEST_CASE("a large prompt is tokenised aside and comes out the same") {
  HttpBed bed({}, 1'000'000);
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += "word" + std::to_string(i) + " ";
  HttpClient client(bed.port());
  client.post(kCompletions, ask(text).dump());
  CHECK(*bed.door.next_submission().prompt == ids_of(text));
  HttpClient gone(bed.port());
  gone.post(kCompletions, ask(text).dump());
  gone.close();  // whether it is prepared by now or not: nothing is left behind
  CHECK(get(bed.port(), "/live").status == 200);
}

}  // namespace shoal::test
