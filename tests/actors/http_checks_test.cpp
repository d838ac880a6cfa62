// What a completion's body and headers may say: fields reach the node as asked, or are refused by
// name.
#include <chrono>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/actors/http_completions.h"

namespace shoal::test {

using namespace std::chrono_literals;

TEST_CASE("replay, timeout and tenant reach the node") {
  HttpConfig config;
  config.keys = {{.key = "k", .tenant = "team"}};
  HttpBed bed(config);
  HttpClient client(bed.port());
  client.post(
      kCompletions, ask("x", {{"replay", "exact"}, {"timeout", 2.5}}).dump(), "x-api-key: k\r\n");
  Submission asked = bed.door.next_submission();
  CHECK(asked.mode == BasisMode::kExact);
  CHECK(asked.deadline == bed.clock.now() + 2'500ms);
  CHECK(asked.tenant == "team");
  HttpClient other(bed.port());
  other.post(kCompletions, ask("x").dump(), "x-api-key: k\r\nx-request-timeout: 30\r\n");
  CHECK(bed.door.next_submission().deadline == bed.clock.now() + 30s);
  HttpClient both(bed.port());
  both.post(kCompletions,
            ask("x", {{"timeout", 600}}).dump(),
            "x-api-key: k\r\nx-request-timeout: 30\r\n");
  CHECK(bed.door.next_submission().deadline == bed.clock.now() + 600s);
  HttpClient neither(bed.port());
  neither.post(kCompletions, ask("x").dump(), "x-api-key: k\r\n");
  CHECK(bed.door.next_submission().deadline == bed.clock.now() + 10min);
}

TEST_CASE("a time limit above the server's own is refused with both numbers, wherever it stands") {
  HttpConfig config;
  config.limits.request_timeout = 90s;
  HttpBed bed(config);
  const HttpResponse body = post(bed.port(), kCompletions, ask("x", {{"timeout", 90.5}}).dump());
  CHECK(body.status == 400);
  CHECK(body_of(body)["error"]["param"] == "timeout");
  CHECK(body_of(body)["error"]["message"] ==
        "invalid request body: timeout: 90.5 seconds are more than this server allows; the most "
        "are 90");
  const HttpResponse head =
      post(bed.port(), kCompletions, ask("x").dump(), "x-request-timeout: 1e300\r\n");
  CHECK(head.status == 400);
  CHECK(body_of(head)["error"]["message"].get<std::string>().find("the most are 90") !=
        std::string::npos);
  CHECK(bed.door.submissions_seen() == 0);
}

TEST_CASE("a passed deadline is a status before the first token and an error event after it") {
  HttpBed bed;
  HttpClient whole(bed.port());
  whole.post(kCompletions, ask("x", {{"timeout", 5}}).dump());
  const Error passed{Code::kDeadline, "the request's deadline passed while it was queued"};
  bed.door.fail(bed.door.next_submission(), passed, false);
  const HttpResponse reply = *whole.read_response();
  CHECK(reply.status == 504);
  CHECK(body_of(reply)["error"]["code"] == "deadline");
  HttpClient stream(bed.port());
  stream.post(kCompletions, ask("x", {{"timeout", 5}, {"stream", true}}).dump());
  const Submission asked = bed.door.next_submission();
  bed.door.send_tokens(asked, 0, ids_of("a"));
  CHECK(stream.read_head().status == 200);
  CHECK_FALSE(data_of(stream.read_event()).contains("error"));
  bed.door.fail(asked, passed, false);
  CHECK(data_of(stream.read_event())["error"]["code"] == "deadline");
}

TEST_CASE("a time limit in the header that is no positive number is refused") {
  HttpBed bed;
  for (const char* value : {"0", "-1", "soon", "1s", "", "nan", "inf", "1e999", "5,5"}) {
    CAPTURE(value);
    const HttpResponse reply = post(bed.port(),
                                    kCompletions,
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
  client.post(kCompletions, ask("x", {{"model", nullptr}, {"seed", -1}}).dump());
  const Submission asked = bed.door.next_submission();
  CHECK(asked.sampling.seed == 0xffff'ffff'ffff'ffffULL);
  bed.door.send_tokens(asked, 0, with_eos("ok"), Finish::kStop);
  CHECK(body_of(*client.read_response())["model"] == "guppy");
}

TEST_CASE("limits that contradict each other or the bounds say which") {
  HttpBed bed;
  CHECK(message_of(bed, ask("x", {{"max_tokens", 3'000'000'000}})).find("1 to 1024") !=
        std::string::npos);
  CHECK(message_of(bed, ask("x", {{"max_tokens", 1e19}})).find("max_tokens") != std::string::npos);
  CHECK(message_of(bed, ask("x", {{"max_tokens", 18446744073709551615ULL}})).find("1 to 1024") !=
        std::string::npos);
  CHECK(status_of(bed, ask("x", {{"max_tokens", 5}, {"min_tokens", 6}})) == 400);
  CHECK(status_of(bed, ask("x", {{"min_tokens", 17}})) == 400);
  CHECK(message_of(bed, ask("x", {{"max_tokens", 5}, {"min_tokens", 6}})) ==
        "invalid request body: min_tokens: 6 is more than max_tokens, which is 5");
  HttpClient client(bed.port());
  client.post(kCompletions, ask("x", {{"max_tokens", 5}, {"min_tokens", 5}}).dump());
  CHECK(bed.door.next_submission().sampling.min_tokens == 5);
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
  client.post(kCompletions, Json({{"prompt", std::vector<int>(95, 5)}}).dump());
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

TEST_CASE("an error names the field at fault beside its message") {
  HttpBed bed;
  const auto param = [&bed](const Json& body) {
    return body_of(post(bed.port(), kCompletions, body.dump()))["error"]["param"];
  };
  CHECK(param({{"prompt", 5}}) == "prompt");
  CHECK(param(ask("")) == "prompt");
  CHECK(param(ask("x", {{"temperature", 5}})) == "temperature");
  CHECK(param(ask("x", {{"temperature", "hot"}})) == "temperature");
  CHECK(param(ask("x", {{"stop", {"a", ""}}})) == "stop[1]");
  CHECK(param(ask("x", {{"stream_options", Json::object()}})) == "stream_options");
  CHECK(param(ask("x", {{"max_tokens", 5}, {"min_tokens", 6}})) == "min_tokens");
  CHECK(param(ask("x", {{"max_tokens", 1'024}})) == "max_tokens");
  CHECK(param(ask("x", {{"model", "gpt"}})) == "model");
  CHECK(param(Json::array()).is_null());
}

TEST_CASE("a body that is cut off is refused with the place where it ends") {
  HttpBed bed;
  const HttpResponse reply = post(bed.port(), kCompletions, "{\"messages\": [");
  CHECK(reply.status == 400);
  CHECK(body_of(reply)["error"]["message"] ==
        "invalid JSON: expected a value at line 1, column 15");
  CHECK(body_of(reply)["error"]["param"].is_null());
}

TEST_CASE("a stop token that no model can produce is refused with its place") {
  HttpBed bed;
  const TokenId size = guppy_tokenizer()->vocabulary_size();
  const Json body = ask("x", {{"stop_token_ids", {5, size}}});
  CHECK(status_of(bed, body) == 400);
  CHECK(message_of(bed, body) ==
        "token id " + std::to_string(size) +
            " at index 1 of stop_token_ids is outside the vocabulary; ids go from 0 to " +
            std::to_string(size - 1));
  HttpClient client(bed.port());
  client.post(kCompletions, ask("x", {{"stop_token_ids", {5, size - 1}}}).dump());
  CHECK(bed.door.next_submission().sampling.stop_token_ids == std::vector<TokenId>{5, size - 1});
}

TEST_CASE("a prompt of ids that holds an image's is refused with its place") {
  HttpBed bed;
  const TokenId image = guppy_tokenizer()->added_id("<｜deepseek_image｜>").value();
  const Json body = {{"prompt", {5, 6, image}}};
  CHECK(status_of(bed, body) == 400);
  CHECK(message_of(bed, body) ==
        "token id " + std::to_string(image) +
            " at index 2 of prompt stands for an image; images are not read by this server, send "
            "text only");
  CHECK(bed.door.submissions_seen() == 0);
}

}  // namespace shoal::test
