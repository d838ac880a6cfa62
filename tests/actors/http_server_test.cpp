// The server through real sockets: routes, keys, and every limit a client can run into before it
// asks for an answer.
#include <chrono>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/actors/http_bed.h"
#include "tests/actors/http_client.h"

namespace shoal::test {
namespace {

using namespace std::chrono_literals;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

HttpConfig with_keys() {
  HttpConfig config;
  config.keys = {{.key = "sk-one", .tenant = "a"}, {.key = "sk-two", .tenant = "b"}};
  return config;
}

}  // namespace

TEST_CASE("the small pages say what is true") {
  HttpBed bed;
  CHECK(get(bed.port(), "/live").body == R"({"status":"ok"})");
  CHECK(get(bed.port(), "/version").body == R"({"version":"1.2.3"})");
  CHECK(contains(get(bed.port(), "/health").body,
                 R"("status":"ok","parts":[{"name":"decode","state":"ok")"));
  CHECK(get(bed.port(), "/ready").status == 200);
  CHECK(contains(get(bed.port(), "/v1/models").body,
                 R"("id":"guppy","object":"model","created":1790000000,"owned_by":"shoal")"));
  CHECK(contains(get(bed.port(), "/models").body, R"("max_model_len":1024)"));
  CHECK(contains(get(bed.port(), "/v1/models/default").body, R"("root":"guppy")"));
}

TEST_CASE("ready and health follow the node") {
  HttpBed bed;
  bed.door.set_state(PartState::kStarting);
  CHECK(get(bed.port(), "/ready").status == 503);
  CHECK(get(bed.port(), "/health").status == 200);
  bed.door.set_state(PartState::kDead);
  CHECK(get(bed.port(), "/ready").status == 503);
  CHECK(get(bed.port(), "/ready").body == R"({"status":"dead","missing":["decode"]})");
  CHECK(get(bed.port(), "/health").status == 503);
  CHECK(get(bed.port(), "/live").status == 200);
  bed.door.set_state(PartState::kBusy);
  CHECK(get(bed.port(), "/ready").status == 200);
}

TEST_CASE("metrics are a Prometheus page with our names and vLLM's") {
  HttpBed bed;
  get(bed.port(), "/nowhere");
  const HttpResponse page = get(bed.port(), "/metrics");
  CHECK(page.fields.at("content-type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(contains(page.body, "shoal_http_replies_total{class=\"4xx\"} 1\n"));
  CHECK(contains(page.body, "vllm:num_requests_running{model_name=\"guppy\"} 0\n"));
  CHECK(contains(page.body,
                 "vllm:time_to_first_token_seconds_bucket{model_name=\"guppy\",le=\"+Inf\"} 0\n"));
}

TEST_CASE("the first page lists every endpoint") {
  HttpBed bed;
  const HttpResponse page = get(bed.port(), "/");
  CHECK(page.status == 200);
  for (const char* name : {"POST /v1/completions",
                           "POST /v1/chat/completions",
                           "GET /v1/models/MODEL",
                           "GET /v1/requests/ID",
                           "GET /metrics",
                           "GET /ready"})
    CHECK(contains(page.body, '"' + std::string(name) + '"'));
}

TEST_CASE("a server for monitors has their pages and nothing that needs a key") {
  FakeFrontDoor door;
  HttpConfig config;
  config.port = 0;
  config.is_for_monitors = true;
  const auto server = HttpServer::start(
      config,
      {.front_door = door,
       .model = {},
       .clocks = {[] { return Instant{}; }, [] { return std::int64_t{0}; }},
       .node_metrics = [](std::string& page) { page += "shoal_of_the_node 1\n"; }});
  REQUIRE(server);
  const std::uint16_t port = (*server)->port();
  CHECK(get(port, "/metrics").body == "shoal_of_the_node 1\n");
  for (const char* open : {"/health", "/ready", "/live", "/version"})
    CHECK(get(port, open).status == 200);
  CHECK(!contains(get(port, "/").body, "/v1/"));
  for (const char* closed : {"/v1/models", "/v1/requests/x", "/v1/chat/completions"})
    CHECK(get(port, closed).status == 404);
}

TEST_CASE("an unknown path or model names what exists") {
  HttpBed bed;
  const HttpResponse path = get(bed.port(), "/v2/chat");
  CHECK(path.status == 404);
  CHECK(contains(path.body, "POST /v1/chat/completions"));
  const HttpResponse model = get(bed.port(), "/v1/models/gpt");
  CHECK(model.status == 404);
  CHECK(contains(model.body, "`gpt` does not exist; there is `guppy`, `default`"));
  CHECK(post(bed.port(), "/tokenize", R"({"model":"gpt","prompt":"x"})").status == 404);
}

TEST_CASE("a wrong method names the right ones, OPTIONS and HEAD work") {
  HttpBed bed;
  const HttpResponse wrong = get(bed.port(), "/v1/completions");
  CHECK(wrong.status == 405);
  CHECK(wrong.fields.at("allow") == "POST, OPTIONS");
  HttpClient client(bed.port());
  client.send("OPTIONS /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto options = client.read_response();
  CHECK(options->status == 204);
  CHECK(options->fields.at("allow") == "GET, HEAD, OPTIONS");
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\nGET /live HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto head = client.read_response(true);
  CHECK(head->status == 200);
  CHECK(std::stoi(head->fields.at("content-length")) > 50);
  CHECK(client.read_response()->body == R"({"status":"ok"})");
}

TEST_CASE("without the right key nothing but the monitors' pages answers") {
  HttpBed bed(with_keys());
  CHECK(get(bed.port(), "/v1/models").status == 401);
  CHECK(get(bed.port(), "/v1/models", "Authorization: Bearer sk-on\r\n").status == 401);
  CHECK(get(bed.port(), "/v1/models", "Authorization: Bearer sk-onesk-one\r\n").status == 401);
  CHECK(get(bed.port(), "/v1/models", "Authorization: Bearer \r\n").status == 401);
  CHECK(get(bed.port(), "/v1/models", "Authorization: bearer sk-one\r\n").status == 200);
  CHECK(get(bed.port(), "/v1/models", "x-api-key: sk-two\r\n").status == 200);
  const HttpResponse refused =
      post(bed.port(), "/tokenize", R"({"prompt":"x"})", "x-api-key: sk-three\r\n");
  CHECK(refused.status == 401);
  CHECK(contains(refused.body,
                 R"("type":"authentication_error","param":null,"code":"invalid_api_key")"));
  CHECK(!contains(refused.body, "sk-three"));
  for (const char* open : {"/health", "/ready", "/live", "/metrics", "/version"})
    CHECK(get(bed.port(), open).status == 200);
}

TEST_CASE("a server without keys does not listen beyond loopback") {
  FakeFrontDoor door;
  HttpConfig config;
  config.host = "0.0.0.0";
  auto server =
      HttpServer::start(config, {.front_door = door, .model = {.names = {"m"}}, .clocks = {}});
  REQUIRE(!server);
  CHECK(server.error().code == Code::kMisconfigured);
  CHECK(contains(server.error().message, "--api-key"));
}

TEST_CASE("a port in use is an error that names address and remedy, for any number of shards") {
  for (const std::uint32_t shards : {1U, 2U}) {
    HttpConfig config;
    config.shards = shards;
    HttpBed bed(config);
    FakeFrontDoor door;
    config.port = bed.port();
    auto second =
        HttpServer::start(config, {.front_door = door, .model = {.names = {"m"}}, .clocks = {}});
    REQUIRE(!second);
    CHECK(second.error().code == Code::kMisconfigured);
    CHECK(second.error().message ==
          "cannot listen on 127.0.0.1:" + std::to_string(bed.port()) +
              ": the port is in use; stop the other program or choose another port");
  }
}

TEST_CASE("tokenize and detokenize undo each other in vLLM's shapes") {
  HttpBed bed;
  const auto ids = ids_of("Hello, world");
  const HttpResponse tokens =
      post(bed.port(),
           "/tokenize",
           R"({"model":"guppy","prompt":"Hello, world","return_token_strs":true})");
  CHECK(tokens.status == 200);
  CHECK(tokens.body.starts_with(R"({"count":)" + std::to_string(ids.size()) +
                                R"(,"max_model_len":1024,"tokens":[)" + std::to_string(ids[0])));
  CHECK(contains(tokens.body, R"("token_strs":[")"));
  std::string list;
  for (const TokenId id : ids)
    list += (list.empty() ? "" : ",") + std::to_string(id);
  CHECK(post(bed.port(), "/detokenize", R"({"tokens":[)" + list + "]}").body ==
        R"({"prompt":"Hello, world"})");
  CHECK(post(bed.port(), "/detokenize", R"({"tokens":[1,999999]})").status == 400);
  CHECK(post(bed.port(), "/detokenize", R"({"tokens":"a"})").status == 400);
  CHECK(post(bed.port(), "/tokenize", "{}").status == 400);
  CHECK(post(bed.port(), "/tokenize", R"({"prompt":7})").status == 400);
}

TEST_CASE("tokenize renders messages as chat does") {
  HttpBed bed;
  const HttpResponse reply =
      post(bed.port(), "/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})");
  CHECK(reply.status == 200);
  CHECK(contains(reply.body, R"("tokens":[0,)"));
}

TEST_CASE("broken bodies get 400 that says where") {
  HttpBed bed;
  const auto status = [&bed](std::string_view body) {
    return post(bed.port(), "/tokenize", body).status;
  };
  CHECK(status("") == 400);
  CHECK(status("{\"prompt\":") == 400);
  CHECK(status("[]") == 400);
  CHECK(status(R"({"prompt":"x"} {})") == 400);
  CHECK(status("{\"prompt\":\"\xff\xfe\"}") == 400);
  CHECK(contains(post(bed.port(), "/tokenize", "{\"prompt\":\n  nope}").body, "line 2"));
}

TEST_CASE("nesting 100,000 deep is a clean 400") {
  HttpBed bed;
  const HttpResponse reply =
      post(bed.port(),
           "/tokenize",
           R"({"prompt":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  CHECK(reply.status == 400);
}

TEST_CASE("a lone surrogate is repaired, not refused") {
  HttpBed bed;
  const HttpResponse broken = post(bed.port(), "/tokenize", R"({"prompt":"cut \ud83d"})");
  CHECK(broken.status == 200);
  CHECK(broken.body == post(bed.port(), "/tokenize", "{\"prompt\":\"cut \xef\xbf\xbd\"}").body);
}

TEST_CASE("types and encodings that cannot be JSON get 415") {
  HttpBed bed;
  const auto status = [&bed](const std::string& fields) {
    HttpClient client(bed.port());
    client.send("POST /tokenize HTTP/1.1\r\nHost: a\r\n" + fields +
                "Content-Length: 14\r\n\r\n{\"prompt\":\"x\"}");
    return client.read_response()->status;
  };
  CHECK(status("Content-Type: multipart/form-data; boundary=x\r\n") == 415);
  CHECK(status("Content-Type: application/json\r\nContent-Encoding: gzip\r\n") == 415);
  CHECK(status("Content-Type: application/json; charset=utf-8\r\n") == 200);
  CHECK(status("Content-Type: APPLICATION/Json;charset=utf-8\r\n") == 200);
  CHECK(status("Content-Type: application/json ; charset=utf-8\r\n") == 200);
  CHECK(status("Content-Type: application/vnd.api+JSON\r\n") == 200);
  CHECK(status("") == 200);
  for (const char* type : {"application/x-www-form-urlencoded",
                           "text/plain",
                           "text/json",
                           "application/notjson",
                           "application/x-json",
                           "application/jsonp",
                           "json",
                           "+json",
                           "application/+json",
                           "/vnd+json",
                           "; application/json",
                           ""}) {
    CAPTURE(type);
    CHECK(status("Content-Type: " + std::string(type) + "\r\n") == 415);
  }
}

TEST_CASE("a request whose end or host is in doubt is refused, and nothing behind it is read") {
  HttpBed bed;
  const std::string hidden = "GET /live HTTP/1.1\r\nHost: a\r\n\r\n";
  const auto refused = [&](const std::string& head) {
    HttpClient client(bed.port());
    client.send(head + "\r\n" + hidden);
    const auto reply = client.read_response();
    REQUIRE(reply);
    CHECK(reply->fields.at("connection") == "close");
    CHECK(client.is_closed());
    return reply->status;
  };
  const std::string post = "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ";
  CHECK(refused(post + "gzip\r\n") == 501);
  CHECK(refused(post + "xchunked\r\n") == 501);
  CHECK(refused(post + "gzip\r\nConnection: keep-alive\r\n") == 501);
  CHECK(refused("GET /live HTTP/1.1\r\n") == 400);
  CHECK(refused("GET /live HTTP/1.1\r\nHost: a\r\nHost: b\r\n") == 400);
}

TEST_CASE("a body of 100 MB gets its 413 although the client still sends") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n");
  const std::string megabyte(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) {
    if (!client.send(megabyte))
      break;
  }
  const auto reply = client.read_response();
  REQUIRE(reply);
  CHECK(reply->status == 413);
  CHECK(reply->fields.at("connection") == "close");
}

TEST_CASE("a client that asks before it sends is told to go on, or is refused at once") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.send(
      "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n");
  CHECK(client.read_response()->status == 100);
  client.send(R"({"prompt":"x"})");
  CHECK(client.read_response()->status == 200);
  client.send(
      "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\nExpect: "
      "100-continue\r\n\r\n");
  CHECK(client.read_response()->status == 413);
}

TEST_CASE("a connection serves request after request, cut anywhere") {
  HttpBed bed;
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  HttpClient client(bed.port());
  const std::string expected = post(bed.port(), "/tokenize", R"({"prompt":"abc"})").body;
  const std::string request =
      "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n{\"prompt\":\"abc\"}";
  for (int round = 0; round < 20; ++round) {
    for (std::size_t at = 0; at < request.size();) {
      const std::size_t n = std::min<std::size_t>(request.size() - at, 1 + random() % 30);
      REQUIRE(client.send(std::string_view(request).substr(at, n)));
      at += n;
    }
    CHECK(client.read_response()->body == expected);
  }
}

TEST_CASE("pipelined requests are answered in order, a thousand as well") {
  HttpBed bed;
  HttpClient client(bed.port());
  std::string requests;
  for (int i = 0; i < 1'000; ++i)
    requests += i % 2 == 0 ? "GET /live HTTP/1.1\r\nHost: a\r\n\r\n"
                           : "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  std::thread sender([&client, &requests] { client.send(requests); });
  int right = 0;
  for (int i = 0; i < 1'000; ++i) {
    const auto reply = client.read_response();
    if (!reply)
      break;
    right += (reply->body == R"({"status":"ok"})") == (i % 2 == 0) ? 1 : 0;
  }
  sender.join();
  CHECK(right == 1'000);
}

TEST_CASE("a client that half-closes still gets the answers that are ready") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.send("GET /live HTTP/1.1\r\nHost: a\r\n\r\nGET /version HTTP/1.1\r\nHost: a\r\n\r\n");
  client.half_close();
  CHECK(client.read_response()->body == R"({"status":"ok"})");
  CHECK(client.read_response()->body == R"({"version":"1.2.3"})");
  CHECK(client.is_closed());
}

TEST_CASE("HTTP/1.0 and Connection: close are answered and closed") {
  HttpBed bed;
  HttpClient old(bed.port());
  old.send("GET /live HTTP/1.0\r\n\r\n");
  CHECK(old.read_response()->fields.at("connection") == "close");
  CHECK(old.is_closed());
  HttpClient last(bed.port());
  last.get("/live", "Connection: close\r\n");
  CHECK(last.read_response()->status == 200);
  CHECK(last.is_closed());
}

TEST_CASE("a sane request id comes back, another one is replaced") {
  HttpBed bed;
  CHECK(get(bed.port(), "/live", "X-Request-Id: abc-1.2\r\n").fields.at("x-request-id") ==
        "abc-1.2");
  CHECK(get(bed.port(), "/live", "X-Request-Id: a b\r\n")
            .fields.at("x-request-id")
            .starts_with("req-"));
  CHECK(get(bed.port(), "/live").fields.at("x-request-id") !=
        get(bed.port(), "/live").fields.at("x-request-id"));
}

TEST_CASE("a head that trickles in is refused after its time, a fast one is not") {
  HttpBed bed;
  HttpClient slow(bed.port());
  slow.send("GET /live HTTP/1.1\r\nHo");
  for (int i = 0; i < 1'000 && !slow.has_input(); ++i) {
    bed.clock.advance(1s);
    slow.send("x");
  }
  const auto reply = slow.read_response();
  REQUIRE(reply);
  CHECK(reply->status == 408);
  CHECK(get(bed.port(), "/live").status == 200);
}

TEST_CASE("a body that stops coming is refused after its time") {
  HttpBed bed;
  HttpClient slow(bed.port());
  slow.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{");
  for (int i = 0; i < 1'000 && !slow.has_input(); ++i)
    bed.clock.advance(1s);
  const auto reply = slow.read_response();
  REQUIRE(reply);
  CHECK(reply->status == 408);
  CHECK(contains(reply->body, "the body did not arrive in time"));
  CHECK(slow.is_closed());
}

TEST_CASE("a body that keeps coming slowly is refused in the end") {
  HttpBed bed;
  HttpClient slow(bed.port());
  slow.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  for (int i = 0; i < 1'000 && !slow.has_input(); ++i) {
    bed.clock.advance(1s);
    slow.send("xxxxxxxxxx");
  }
  CHECK(slow.read_response()->status == 408);
}

TEST_CASE("an idle connection is closed without a word") {
  HttpBed bed;
  HttpClient client(bed.port());
  client.get("/live");
  CHECK(client.read_response()->status == 200);
  for (int i = 0; i < 1'000 && !client.has_input(); ++i)
    bed.clock.advance(1s);
  CHECK(client.is_closed());
}

TEST_CASE("beyond the limit of connections a client is told to come back") {
  HttpConfig config;
  config.limits.connections = 20;
  HttpBed bed(config);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(bed.port());
    clients.back().get("/live");
    CHECK(clients.back().read_response()->status == 200);
  }
  HttpClient one_more(bed.port());
  const auto reply = one_more.read_response();
  REQUIRE(reply);
  CHECK(reply->status == 503);
  CHECK(reply->fields.at("retry-after") == "1");
  CHECK(one_more.is_closed());
}

TEST_CASE("a thousand idle connections leave a busy one alone") {
  HttpBed bed;
  std::vector<HttpClient> idle;
  for (int i = 0; i < 1'000; ++i)
    idle.emplace_back(bed.port());
  HttpClient busy(bed.port());
  for (int i = 0; i < 200; ++i) {
    busy.get("/live");
    CHECK(busy.read_response()->status == 200);
  }
  for (const std::size_t i : {0, 499, 999}) {
    idle[i].get("/live");
    CHECK(idle[i].read_response()->status == 200);
  }
}

TEST_CASE("several shards share one port") {
  HttpConfig config;
  config.shards = 3;
  HttpBed bed(config);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(bed.port());
    clients.back().get("/live");
  }
  for (HttpClient& client : clients)
    CHECK(client.read_response()->status == 200);
}

}  // namespace shoal::test
