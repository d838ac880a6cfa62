// GET /v1/requests/{id}: an answer is found by both its ids and by its own tenant only.
#include <chrono>
#include <doctest/doctest.h>
#include <string>

#include "tests/actors/http_completions.h"

namespace shoal::test {
namespace {

using namespace std::chrono_literals;

RequestTimeline timeline_of(const Submission& asked) {
  return {.request = asked.request,
          .tenant = asked.tenant,
          .choice = asked.choice,
          .entries = {{.at = 1'500ns,
                       .node = NodeId{3},
                       .attempt = AttemptId{2},
                       .event = "accepted",
                       .state = "queued",
                       .fields = {{"class", std::int64_t{1}}, {"mode", std::string("bo\"und")}}}},
          .left_out = 4};
}

// The answer to one completion with `n` choices.
HttpResponse complete(HttpBed& bed, int n, const std::string& fields = "") {
  HttpClient client(bed.port());
  client.post(kCompletions, ask("x", {{"n", n}}).dump(), fields);
  for (int i = 0; i < n; ++i) {
    const Submission asked = bed.door.next_submission();
    bed.door.set_timeline(timeline_of(asked));
    bed.door.send_tokens(asked, 0, with_eos("ok"), Finish::kStop);
  }
  return *client.read_response();
}

HttpResponse explain(HttpBed& bed, const std::string& id, const std::string& fields = "") {
  HttpClient client(bed.port());
  client.get("/v1/requests/" + id, fields);
  return *client.read_response();
}

}  // namespace

TEST_CASE("an answer is explained by its id and by its x-request-id, a timeline for each choice") {
  HttpBed bed({}, 1'024, {"front", "work\"er"});
  const HttpResponse answer = complete(bed, 2);
  const std::string id = body_of(answer)["id"];
  const HttpResponse by_id = explain(bed, id);
  REQUIRE(by_id.status == 200);
  const Json body = body_of(by_id);
  CHECK(body["id"] == id);
  CHECK(body["object"] == "request");
  CHECK(body["nodes"] == Json::parse(R"(["front","work\"er"])"));
  REQUIRE(body["choices"].size() == 2);
  CHECK(body["choices"][1]["index"] == 1);
  CHECK(body["choices"][0]["request"].is_string());
  CHECK(body["choices"][0]["left_out"] == 4);
  CHECK(body["choices"][0]["entries"] ==
        Json::parse(R"([{"t_ns":1500,"node":3,"attempt":2,"event":"accepted","state":"queued",
                         "fields":{"class":1,"mode":"bo\"und"}}])"));
  const HttpResponse by_head = explain(bed, answer.fields.at("x-request-id"));
  REQUIRE(by_head.status == 200);
  CHECK(body_of(by_head)["choices"] == body["choices"]);
  complete(bed, 1, "x-request-id: mine.7\r\n");
  CHECK(body_of(explain(bed, "mine.7"))["choices"].size() == 1);
}

TEST_CASE(
    "an unknown id, an evicted one and one whose router is elsewhere are not found, in words") {
  HttpConfig config;
  config.limits.explained_answers = 1;
  HttpBed bed(config);
  CHECK(explain(bed, "chatcmpl-nothing").status == 404);
  CHECK(body_of(explain(bed, "a/b"))["error"]["code"] == "not_found");
  const std::string first = body_of(complete(bed, 1))["id"];
  CHECK(explain(bed, first).status == 200);
  const std::string second = body_of(complete(bed, 1))["id"];
  CHECK(explain(bed, first).status == 404);
  CHECK(explain(bed, second).status == 200);
  bed.door.forget_timelines();
  const HttpResponse elsewhere = explain(bed, second);
  CHECK(elsewhere.status == 404);
  CHECK(body_of(elsewhere)["error"]["message"].get<std::string>().find("another node") !=
        std::string::npos);
}

TEST_CASE("a tenant sees its own requests only, a client without a key none") {
  HttpConfig config;
  config.keys = {{.key = "a", .tenant = "a"}, {.key = "b", .tenant = "b"}};
  HttpBed bed(config);
  const std::string mine = "x-api-key: a\r\nx-request-id: same\r\n";
  const std::string id = body_of(complete(bed, 1, mine))["id"];
  CHECK(explain(bed, id, "x-api-key: a\r\n").status == 200);
  CHECK(explain(bed, "same", "x-api-key: a\r\n").status == 200);
  const HttpResponse foreign = explain(bed, id, "x-api-key: b\r\n");
  CHECK(foreign.status == 404);
  CHECK(body_of(foreign)["error"]["message"].get<std::string>().find("not known here") !=
        std::string::npos);
  CHECK(explain(bed, "same", "x-api-key: b\r\n").status == 404);
  CHECK(explain(bed, id).status == 401);
}

}  // namespace shoal::test
