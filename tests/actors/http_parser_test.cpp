// Bytes to requests: however they are cut, whatever they claim.
#include "actors/http_parser.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

namespace shoal {
namespace {

const std::string kPost =
    "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\nContent-Length: "
    "5\r\n\r\nhello";
const std::string kChunked =
    "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
    "chunked\r\n\r\n3;note=1\r\nabc\r\n4\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n";

// Feeds until nothing moves any more; the whole requests, or the status of the error.
struct Outcome {
  std::vector<HttpRequest> requests;
  int error = 0;
};

void advance(HttpParser& parser, Outcome& outcome) {
  while (outcome.error == 0) {
    const auto state = parser.state();
    const auto unread = parser.unread_bytes();
    if (const auto error = parser.advance()) {
      outcome.error = error->status;
    } else if (parser.state() == HttpParser::State::kDone) {
      outcome.requests.push_back(parser.take());
    } else if (parser.state() == state && parser.unread_bytes() == unread) {
      return;
    }
  }
}

Outcome parse(const std::vector<std::string>& pieces, const HttpLimits& limits = {}) {
  HttpParser parser(limits);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    parser.append(piece);
    advance(parser, outcome);
  }
  return outcome;
}

std::vector<std::string> byte_by_byte(const std::string& text) {
  std::vector<std::string> pieces;
  for (const char c : text)
    pieces.emplace_back(1, c);
  return pieces;
}

}  // namespace

TEST_CASE("a request is the same whether it comes whole or byte by byte") {
  for (const auto& pieces : {std::vector{kPost}, byte_by_byte(kPost)}) {
    const Outcome outcome = parse(pieces);
    REQUIRE(outcome.requests.size() == 1);
    const HttpRequest& request = outcome.requests[0];
    CHECK(request.method == "POST");
    CHECK(request.path == "/v1/completions");
    CHECK(request.field("x-api-key") == "k");
    CHECK(request.body == "hello");
    CHECK(request.keep_alive);
  }
}

TEST_CASE("a chunked body is joined and its trailer changes nothing") {
  for (const auto& pieces : {std::vector{kChunked}, byte_by_byte(kChunked)}) {
    const Outcome outcome = parse(pieces);
    REQUIRE(outcome.requests.size() == 1);
    CHECK(outcome.requests[0].body == "abcdefg");
  }
}

TEST_CASE("pipelined requests come out in order under random cuts") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  const std::string text =
      kPost + "\r\n" + kChunked + "GET /models/a%2Fb HTTP/1.1\r\nHost: a\r\n\r\n" + kPost;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(text.size() - at, 1 + random() % 60);
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    const Outcome outcome = parse(pieces);
    CHECK(outcome.error == 0);
    REQUIRE(outcome.requests.size() == 4);
    CHECK(outcome.requests[1].body == "abcdefg");
    CHECK(outcome.requests[2].path == "/models/a/b");
    CHECK(outcome.requests[3].body == "hello");
  }
}

TEST_CASE("a head that never ends is refused at its limit") {
  HttpLimits limits;
  limits.header_bytes = 1'000;
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  CHECK(parse({head + std::string(2'000, 'x') + "\r\n\r\n"}, limits).error == 431);
  CHECK(parse({head + std::string(2'000, 'x')}, limits).error == 431);
  CHECK(parse(byte_by_byte(head + std::string(2'000, 'x')), limits).error == 431);
  CHECK(parse({head + std::string(500, 'x') + "\r\n\r\n"}, limits).requests.size() == 1);
}

TEST_CASE("a body beyond the limit is refused by its claim, or when it gets there") {
  HttpLimits limits;
  limits.body_bytes = 10;
  CHECK(parse({"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n"}, limits).error == 413);
  CHECK(parse({"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
               "chunked\r\n\r\nb\r\n12345678901\r\n0\r\n\r\n"},
              limits)
            .error == 413);
  CHECK(parse({"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234567890"}, limits)
            .requests.size() == 1);
}

TEST_CASE("what could be read in two ways is refused") {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  CHECK(parse({start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}).error ==
        400);
  CHECK(parse({start + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"}).error ==
        400);
  CHECK(parse({start + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"}).error == 400);
  CHECK(parse({start + "Content-Length: -1\r\n\r\n"}).error == 400);
  CHECK(parse({start + "Bad Name : 1\r\n\r\n"}).error == 400);
  CHECK(parse({"NONSENSE\r\n\r\n"}).error == 400);
  CHECK(parse({"GET / HTTP/2.0\r\n\r\n"}).error == 400);
  CHECK(parse({start + "Expect: tea\r\nContent-Length: 1\r\n\r\n"}).error == 417);
}

TEST_CASE("a transfer coding other than chunked is refused with the request hidden behind it") {
  const std::string hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
  const auto with_fields = [&hidden](const std::string& fields) {
    return parse({"POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n0\r\n\r\n" + hidden});
  };
  for (const char* fields : {"Transfer-Encoding: gzip\r\n",
                             "Transfer-Encoding: identity\r\n",
                             "Transfer-Encoding: xchunked\r\n",
                             "Transfer-Encoding: chunked, chunked\r\n",
                             "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: chunked, gzip\r\n",
                             "Transfer-Encoding: chunked,\r\n",
                             "Transfer-Encoding: ,chunked\r\n",
                             "Transfer-Encoding: chunked;x=1\r\n",
                             "Transfer-Encoding: \"chunked\"\r\n",
                             "Transfer-Encoding:\r\n",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: chunked\r\ntransfer-encoding: gzip\r\n"}) {
    CAPTURE(fields);
    const Outcome outcome = with_fields(fields);
    const bool is_refused = outcome.error == 501 || outcome.error == 400;
    CHECK(is_refused);
    CHECK(outcome.requests.empty());
  }
  CHECK(with_fields("Transfer-Encoding: gzip\r\n").error == 501);
  CHECK(with_fields("Transfer-Encoding: CHUNKED\r\n").requests.size() == 2);
  CHECK(parse({"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}).error == 400);
}

TEST_CASE("HTTP/1.1 names its host once") {
  CHECK(parse({"GET / HTTP/1.1\r\n\r\n"}).error == 400);
  CHECK(parse({"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"}).error == 400);
  CHECK(parse({"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"}).error == 400);
  CHECK(parse({"GET / HTTP/1.0\r\n\r\n"}).requests.size() == 1);
  CHECK(parse({"GET / HTTP/1.1\r\nHost:\r\n\r\n"}).requests.size() == 1);
}

TEST_CASE("random bytes never do more than fail") {
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 random(seed);
  int failed = 0;
  for (int round = 0; round < 2'000; ++round) {
    std::string text = round % 2 == 0 ? kPost : kChunked;
    for (int change = 0; change < 4; ++change)
      text[random() % text.size()] = static_cast<char>(random());
    failed += parse({text}).error != 0 ? 1 : 0;
  }
  CHECK(failed > 0);
}

}  // namespace shoal
