// POSIX sockets and just enough HTTP to judge a server by.
#include "tests/actors/http_client.h"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace shoal::test {
namespace {

constexpr int kPatienceMs = 20'000;  // far beyond any right answer, even on a busy machine

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error("http client: " + what);
}

std::string lower(std::string text) {
  std::ranges::transform(
      text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

HttpClient::HttpClient(std::uint16_t port, int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    give_up("cannot connect");
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      unread_(std::move(other.unread_)),
      events_(std::move(other.events_)) {}

HttpClient::~HttpClient() {
  close();
}

void HttpClient::close() {
  if (socket_ >= 0)
    ::close(std::exchange(socket_, -1));
}

void HttpClient::half_close() {
  ::shutdown(socket_, SHUT_WR);
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0)
      return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void HttpClient::get(std::string_view path, std::string_view fields) {
  send("GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(fields) + "\r\n");
}

void HttpClient::post(std::string_view path, std::string_view body, std::string_view fields) {
  send("POST " + std::string(path) +
       " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: " +
       std::to_string(body.size()) + "\r\n" + std::string(fields) + "\r\n" + std::string(body));
}

bool HttpClient::fill() {
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, kPatienceMs) <= 0)
    give_up("the server said nothing; so far: " + unread_.substr(0, 400));
  char buffer[65536];
  const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
  if (n <= 0)
    return false;
  unread_.append(buffer, static_cast<std::size_t>(n));
  return true;
}

std::string HttpClient::take_line() {
  std::size_t end;
  while ((end = unread_.find("\r\n")) == std::string::npos) {
    if (!fill())
      give_up("the connection ended in the middle of: " + unread_);
  }
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 2);
  return line;
}

std::string HttpClient::take_bytes(std::size_t count) {
  while (unread_.size() < count) {
    if (!fill())
      give_up("the connection ended in the middle of a body");
  }
  std::string bytes = unread_.substr(0, count);
  unread_.erase(0, count);
  return bytes;
}

HttpResponse HttpClient::read_head() {
  HttpResponse response;
  events_.clear();
  stream_ended_ = false;
  const std::string status_line = take_line();
  if (!status_line.starts_with("HTTP/1."))
    give_up("not a status line: " + status_line);
  response.status = std::stoi(status_line.substr(9, 3));
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos)
      give_up("not a field: " + line);
    response.fields[lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return response;
}

std::optional<std::string> HttpClient::take_chunk() {
  const std::size_t size = std::stoul(take_line(), nullptr, 16);
  std::string chunk = take_bytes(size);
  if (!take_line().empty())
    give_up("a chunk does not end where it says");
  if (size == 0)
    return std::nullopt;
  return chunk;
}

std::optional<HttpResponse> HttpClient::read_response(bool head_only) {
  while (unread_.empty()) {
    if (!fill())
      return std::nullopt;
  }
  HttpResponse response = read_head();
  if (head_only || response.status == 204 || response.status == 100)
    return response;
  if (response.fields.contains("content-length")) {
    response.body = take_bytes(std::stoul(response.fields["content-length"]));
  } else if (response.fields.contains("transfer-encoding")) {
    while (auto chunk = take_chunk())
      response.body += *chunk;
  } else {
    while (fill()) {
    }
    response.body = std::exchange(unread_, {});
  }
  return response;
}

std::optional<std::string> HttpClient::read_event() {
  std::size_t end;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    if (stream_ended_)
      return std::nullopt;
    const auto chunk = take_chunk();
    stream_ended_ = !chunk;
    if (chunk)
      events_ += *chunk;
  }
  std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  return event;
}

bool HttpClient::has_input() {
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  return !unread_.empty() || ::poll(&waiting, 1, 5) > 0;
}

bool HttpClient::is_closed() {
  return unread_.empty() && !fill();
}

HttpResponse get(std::uint16_t port, std::string_view path, std::string_view fields) {
  HttpClient client(port);
  client.get(path, fields);
  return client.read_response().value_or(HttpResponse{});
}

HttpResponse post(std::uint16_t port,
                  std::string_view path,
                  std::string_view body,
                  std::string_view fields) {
  HttpClient client(port);
  client.post(path, body, fields);
  return client.read_response().value_or(HttpResponse{});
}

}  // namespace shoal::test
