// A blocking HTTP client for tests: raw bytes over a loopback socket, every wait with a deadline
// that fails the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::test {

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  HttpClient& operator=(HttpClient&&) = delete;

  // False when the server closed meanwhile.
  bool send(std::string_view bytes);
  void get(std::string_view path, std::string_view fields = "");
  void post(std::string_view path, std::string_view body, std::string_view fields = "");
  void half_close();
  void close();

  // A whole response, chunked or not; nothing when the server closed before it began. `head_only`:
  // the answer to HEAD.
  std::optional<HttpResponse> read_response(bool head_only = false);
  // Head of a chunked response, then its parts.
  HttpResponse read_head();
  // The next server-sent event (or comment) without its blank line; nothing at the end of the
  // stream.
  std::optional<std::string> read_event();
  // Whether there is something to read, or the end, within a few milliseconds.
  bool has_input();
  // Whether the server closed with nothing more to read.
  bool is_closed();

 private:
  bool fill();  // false at the end of the connection
  std::string take_line();
  std::string take_bytes(std::size_t count);
  std::optional<std::string> take_chunk();

  int socket_ = -1;
  std::string unread_;
  std::string events_;
  bool stream_ended_ = false;
};

// One request on a connection of its own.
HttpResponse get(std::uint16_t port, std::string_view path, std::string_view fields = "");
HttpResponse post(std::uint16_t port,
                  std::string_view path,
                  std::string_view body,
                  std::string_view fields = "");

}  // namespace shoal::test
