// What an operator finds in the log about the HTTP side: the port, refusals, cut clients; and no
// line for what went well.
#include <chrono>
#include <doctest/doctest.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/actors/http_completions.h"

namespace shoal::test {

using namespace std::chrono_literals;

TEST_CASE("the log names the port that opens, drains and closes, once each") {
  HttpBed bed;
  const std::string port = "port=" + std::to_string(bed.port());
  CHECK(bed.log.count("http.listening address=127.0.0.1 " + port) == 1);
  CHECK(bed.server->drain(bed.clock.now() + 1s));
  bed.server->stop();
  CHECK(bed.log.count("http.draining address=127.0.0.1 " + port) == 1);
  CHECK(bed.log.count("http.closed address=127.0.0.1 " + port) == 1);
}

TEST_CASE("a refused request is a line with its id, path and status, a served one is none") {
  HttpBed bed;
  get(bed.port(), "/live", "x-request-id: fine\r\n");
  get(bed.port(), "/no%0Awhere", "x-request-id: lost\r\n");
  CHECK(post(bed.port(), kCompletions, "{", "x-request-id: broken\r\n").status == 400);
  HttpClient client(bed.port());
  client.post(kCompletions, ask("x").dump(), "x-request-id: busy\r\n");
  bed.door.fail(bed.door.next_submission(), {Code::kNoCapacity, "full"}, false);
  CHECK(client.read_response()->status == 503);
  CHECK(bed.log.count("debug http.refused id=lost path=/no?where status=404") == 1);
  CHECK(bed.log.count("debug http.refused id=broken path=/v1/completions status=400") == 1);
  CHECK(bed.log.count("info http.refused id=busy path=/v1/completions status=503") == 1);
  CHECK(bed.log.count("http.refused") == 3);
}

TEST_CASE("connections beyond the limit are counted in at most one line a second") {
  HttpConfig config;
  config.limits.connections = 30;  // four more are answered at the same time
  HttpBed bed(config);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 30; ++i) {
    clients.emplace_back(bed.port());
    clients.back().get("/live");
    CHECK(clients.back().read_response()->status == 200);
  }
  const auto refuse_one = [&bed] {
    HttpClient refused(bed.port());
    CHECK(refused.read_response()->status == 503);
    CHECK(refused.is_closed());
  };
  const auto await_lines = [&bed](std::size_t lines) {
    while (bed.log.count("http.connections_refused") < lines)
      std::this_thread::yield();
  };
  refuse_one();
  await_lines(1);
  for (int i = 0; i < 3; ++i)
    refuse_one();
  CHECK(bed.log.count("http.connections_refused") == 1);
  bed.clock.advance(1s);
  await_lines(2);
  CHECK(bed.log.count("warning http.connections_refused count=1 limit=30") == 1);
  CHECK(bed.log.count("warning http.connections_refused count=3 limit=30") == 1);
  CHECK(bed.log.count("http.refused") == 0);
}

TEST_CASE("a client that reads too slowly is named when it is cut") {
  HttpConfig config;
  config.limits.pending_bytes = 32 * 1024;
  HttpBed bed(config, 1'000'000);
  HttpClient client(bed.port(), 4'096);
  client.post(kCompletions,
              ask("x", {{"stream", true}, {"max_tokens", 900'000}}).dump(),
              "x-request-id: sleepy\r\n");
  const Submission asked = bed.door.next_submission();
  const std::vector<TokenId> tokens(100'000, ids_of("abc")[0]);
  bed.door.send_tokens(asked, 0, tokens);
  CHECK(bed.door.next_closed() == asked.request);
  CHECK(bed.log.count("info http.client_cut id=sleepy path=/v1/completions reason=too_slow") == 1);
}

}  // namespace shoal::test
