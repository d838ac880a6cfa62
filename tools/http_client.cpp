// Sockets and poll around Beast's parser: poll, because a waiting read must end when the user
// interrupts it.
#include "tools/http_client.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace shoal::tools {

namespace {

namespace http = boost::beast::http;

constexpr int kConnectSeconds = 10;
constexpr int kSilenceMilliseconds = 600'000;  // a server may think long about the first token

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}

  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

  Socket& operator=(Socket&&) = delete;

  ~Socket() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// The first address of the host that answers; the last failure when none does.
Result<Socket> connect_to(const ServerAddress& address) {
  const addrinfo hints{.ai_flags = AI_ADDRCONFIG,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
      failed != 0) {
    return fail(Code::kUnavailable, address.url() + ": " + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  const timeval limit{.tv_sec = kConnectSeconds, .tv_usec = 0};
  int why = ECONNREFUSED;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    // The send limit also bounds connect().
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) {
      return socket;
    }
    why = errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  return fail(Code::kUnavailable,
              address.url() + ": " + std::strerror(why) + "; is a server running there?");
}

}  // namespace

std::string ServerAddress::url() const {
  const bool is_ipv6 = host.find(':') != host.npos;
  return "http://" + (is_ipv6 ? "[" + host + "]" : host) + ":" + port + prefix;
}

Result<ServerAddress> parse_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  const std::string wanted = "'" + std::string(url) + "' is not http://HOST[:PORT][/PATH]";
  if (!url.starts_with(kScheme)) {
    return fail(Code::kMisconfigured, wanted);
  }
  url.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(url.find('/'), url.size());
  std::string_view authority = url.substr(0, slash);
  std::string_view path = url.substr(slash);
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  if (path.ends_with("/v1")) {
    path.remove_suffix(3);
  }
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.rfind(':');
  const bool has_port = colon != authority.npos && (bracket == authority.npos || colon > bracket);
  ServerAddress address;
  address.host = authority.substr(0, has_port ? colon : authority.size());
  address.port = has_port ? authority.substr(colon + 1) : "80";
  address.prefix = path;
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  const bool digits = address.port.find_first_not_of("0123456789") == std::string::npos;
  if (address.host.empty() || address.port.empty() || !digits) {
    return fail(Code::kMisconfigured, wanted);
  }
  return address;
}

HttpClient::HttpClient(ServerAddress address, std::string api_key, int interrupt)
    : address_(std::move(address)),
      api_key_(std::move(api_key)),
      interrupt_(interrupt) {}

std::string HttpClient::head(std::string_view method, std::string_view path) const {
  std::string text(method);
  text += " " + address_.prefix;
  text += path;
  text += " HTTP/1.1\r\nHost: " + address_.host + ":" + address_.port + "\r\nConnection: close\r\n";
  if (!api_key_.empty()) {
    text += "Authorization: Bearer " + api_key_ + "\r\n";
  }
  return text;
}

Result<HttpReply> HttpClient::get(std::string_view path) const {
  return exchange(head("GET", path) + "\r\n", nullptr);
}

Result<HttpReply> HttpClient::post(std::string_view path,
                                   std::string_view json,
                                   const BodySink& take) const {
  std::string request = head("POST", path) + "Content-Type: application/json\r\nContent-Length: " +
                        std::to_string(json.size()) + "\r\n\r\n";
  request += json;
  return exchange(request, take);
}

tl::unexpected<Error> HttpClient::lost(std::string_view what) const {
  return fail(Code::kUnavailable, address_.url() + ": " + std::string(what));
}

Result<void> HttpClient::await_bytes(int socket) const {
  std::array<pollfd, 2> waits{pollfd{.fd = socket, .events = POLLIN, .revents = 0},
                              pollfd{.fd = interrupt_, .events = POLLIN, .revents = 0}};
  int ready = -1;
  do {
    ready = ::poll(waits.data(), waits.size(), kSilenceMilliseconds);
  } while (ready < 0 && errno == EINTR);
  if (waits[1].revents != 0) {
    return fail(Code::kCancelled, "interrupted");
  }
  if (ready <= 0) {
    return lost("sent nothing for " + std::to_string(kSilenceMilliseconds / 1000) + " s");
  }
  return {};
}

Result<HttpReply> HttpClient::exchange(std::string_view request, const BodySink& take) const {
  TRY(const Socket socket, connect_to(address_));
  while (!request.empty()) {
    const ssize_t sent = ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return lost(std::strerror(errno));
    }
    request.remove_prefix(static_cast<std::size_t>(sent));
  }
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  std::string unparsed;
  std::array<char, 16'384> bytes{};
  while (!parser.is_done()) {
    TRY_VOID(await_bytes(socket.get()));
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    boost::system::error_code failed;
    if (count <= 0) {
      parser.put_eof(failed);
      if (count < 0 || failed || !parser.is_done()) {
        return lost("the connection broke in the middle of the answer");
      }
      break;
    }
    unparsed.append(bytes.data(), static_cast<std::size_t>(count));
    unparsed.erase(0, parser.put(boost::asio::buffer(unparsed), failed));
    if (failed && failed != http::error::need_more) {
      return lost("the answer is not HTTP (" + failed.message() + ")");
    }
    if (take && parser.is_header_done() && parser.get().result_int() == 200) {
      take(std::exchange(parser.get().body(), {}));
    }
  }
  return HttpReply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

void EventReader::push(std::string_view bytes, const std::function<void(std::string_view)>& take) {
  constexpr std::string_view kData = "data:";
  for (const char byte : bytes) {
    if (byte != '\n') {
      line_ += byte;
      continue;
    }
    std::string_view line = line_;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.starts_with(kData)) {
      line.remove_prefix(kData.size());
      take(line.starts_with(' ') ? line.substr(1) : line);
    }
    line_.clear();
  }
}

}  // namespace shoal::tools
