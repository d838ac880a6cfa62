// A small blocking HTTP/1.1 client for one server: a connection per request, the body handed on as
// it arrives, and a way to leave in the middle.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "schemas/result.h"

namespace shoal::tools {

struct ServerAddress {
  std::string host;
  std::string port;
  std::string prefix;  // of every path: "" or "/somewhere"

  std::string url() const;
};

// "http://host:port", also with a path; a trailing /v1 is what clients of the API call the base and
// is dropped.
Result<ServerAddress> parse_url(std::string_view url);

struct HttpReply {
  int status = 0;
  std::string body;  // what no BodySink took
};

class HttpClient {
 public:
  using BodySink = std::function<void(std::string_view)>;

  // `api_key` may be empty. A request ends with kCancelled when the descriptor `interrupt` is
  // readable.
  HttpClient(ServerAddress address, std::string api_key, int interrupt);

  // Errors name the server and say what happened to the connection.
  Result<HttpReply> get(std::string_view path) const;
  // The body of an answer with status 200 goes to `take` as it arrives.
  Result<HttpReply> post(std::string_view path, std::string_view json, const BodySink& take) const;

 private:
  std::string head(std::string_view method, std::string_view path) const;
  Result<HttpReply> exchange(std::string_view request, const BodySink& take) const;
  Result<void> await_bytes(int socket) const;
  tl::unexpected<Error> lost(std::string_view what) const;

  ServerAddress address_;
  std::string api_key_;
  int interrupt_;
};

// Cuts a body of server-sent events, however it arrives, into the data of each event.
class EventReader {
 public:
  void push(std::string_view bytes, const std::function<void(std::string_view)>& take);

 private:
  std::string line_;
};

}  // namespace shoal::tools
