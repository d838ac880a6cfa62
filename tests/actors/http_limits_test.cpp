// Clients that leave, stall or come too many, and a server that drains under them.
#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/actors/http_completions.h"

namespace shoal::test {

using namespace std::chrono_literals;

TEST_CASE("a client that leaves frees every choice at once") {
  HttpBed bed;
  for (const bool stream : {false, true}) {
    HttpClient client(bed.port());
    client.post(kCompletions, ask("x", {{"stream", stream}, {"n", 2}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}}).dump());
  const Submission asked = bed.door.next_submission();
  client.half_close();
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(client.is_closed());
}

TEST_CASE("a client that never reads is cut when too much is pending") {
  HttpBed bed({}, 1'000'000);
  HttpClient client(bed.port(), 4'096);
  client.post(kCompletions, ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}}).dump());
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
  client.post(kCompletions, ask("x", {{"timeout", 5}}).dump());
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
  first.post(kCompletions, ask("x", {{"n", 3}}).dump(), "x-api-key: a\r\n");
  bed.door.next_submission();
  const HttpResponse same_key = post(bed.port(), kCompletions, ask("x").dump(), "x-api-key: a\r\n");
  CHECK(same_key.status == 429);
  CHECK(same_key.fields.at("retry-after") == "1");
  HttpClient second(bed.port());
  second.post(kCompletions, ask("x", {{"n", 2}}).dump(), "x-api-key: b\r\n");
  for (int i = 0; i < 4; ++i)
    bed.door.next_submission();
  CHECK(post(bed.port(), kCompletions, ask("x").dump(), "x-api-key: c\r\n").status == 429);
  second.close();
  bed.door.next_closed();
  bed.door.next_closed();
  HttpClient third(bed.port());
  third.post(kCompletions, ask("x", {{"n", 2}}).dump(), "x-api-key: c\r\n");
  CHECK(bed.door.next_submission().tenant == "c");
}

TEST_CASE(
    "a drain lets answers finish, refuses new ones and tells monitors, then the port closes") {
  HttpBed bed;
  HttpClient busy(bed.port());
  HttpClient idle(bed.port());
  idle.get("/ready");
  CHECK(idle.read_response()->status == 200);
  busy.post(kCompletions, ask("x", {{"stream", true}}).dump());
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
  const HttpResponse refused = post(bed.port(), kCompletions, ask("y").dump());
  CHECK(refused.status == 503);
  CHECK(refused.fields.at("retry-after") == "1");
  CHECK(refused.fields.at("connection") == "close");
  CHECK(body_of(refused)["error"]["code"] == "draining");
  for (const char* page : {"/health", "/live", "/metrics"}) {
    const HttpResponse reply = get(bed.port(), page);
    CHECK(reply.status == 200);
    CHECK(reply.fields.at("connection") == "close");
  }
  const HttpResponse unready = get(bed.port(), "/ready");
  CHECK(unready.status == 503);
  CHECK(unready.body == R"({"status":"draining"})");
  CHECK(unready.fields.at("retry-after") == "1");
  bed.door.send_tokens(asked, 0, with_eos("the end"), Finish::kStop);
  busy.read_head();
  std::string last;
  for (auto event = busy.read_event(); event; event = busy.read_event())
    last = *event;
  drainer.join();
  CHECK(last == "data: [DONE]");
  CHECK(complete);
  CHECK(bed.door.submissions_seen() == 1);
  CHECK_THROWS(HttpClient(bed.port()));
}

TEST_CASE("an answer that drain cuts at its deadline ends with an error, and the node is told") {
  for (const bool by_drain : {true, false}) {
    HttpBed bed;
    HttpClient streamed(bed.port());
    streamed.post(kCompletions, ask("x", {{"stream", true}}).dump());
    const Submission first = bed.door.next_submission();
    bed.door.send_tokens(first, 0, ids_of("some"));
    streamed.read_head();
    CHECK(text_of(data_of(streamed.read_event())) == "some");
    HttpClient whole(bed.port());
    whole.post(kCompletions, ask("x").dump());
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
  client.post(kCompletions, ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump());
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
    client.post(kCompletions, ask("x", {{"stream", true}, {"max_tokens", 500}}).dump());
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
