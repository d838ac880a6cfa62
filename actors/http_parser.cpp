// The only file that includes Beast: its parser turns bytes into a request, everything else of HTTP
// is ours.
#include "actors/http_parser.h"

#include <algorithm>
#include <utility>  // Boost 1.74 uses std::exchange without including it.

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "schemas/check.h"

namespace shoal {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

// A malformed escape stays as it is: no route has one.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const int high = escape ? hex_digit(text[i + 1]) : -1;
    const int low = escape ? hex_digit(text[i + 2]) : -1;
    if (high >= 0 && low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Without the query, and without scheme and host when the target is in absolute form.
std::string path_of(std::string_view target) {
  if (target.starts_with("http://")) {
    const auto slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return percent_decoded(target.substr(0, target.find_first_of("?#")));
}

std::size_t count_fields(const HttpRequest& request, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(request.fields, [name](const auto& field) {
    return equals_ignoring_case(field.first, name);
  }));
}

// Where a body ends must be beyond doubt: what a proxy in front reads differently is how requests
// are smuggled past it.
std::optional<HttpError> check_framing(const HttpRequest& request) {
  const std::size_t codings = count_fields(request, "transfer-encoding");
  if (codings == 0)
    return std::nullopt;
  if (request.has_field("content-length")) {
    return HttpError{
        .status = 400,
        .message = "the request has both Content-Length and Transfer-Encoding; send one"};
  }
  if (request.version == 10)
    return HttpError{.status = 400, .message = "HTTP/1.0 has no Transfer-Encoding"};
  if (codings > 1 || !equals_ignoring_case(request.field("transfer-encoding"), "chunked")) {
    return HttpError{.status = 501,
                     .message = "the only Transfer-Encoding read here is `chunked`, once",
                     .code = "unsupported_transfer_encoding"};
  }
  return std::nullopt;
}

std::optional<HttpError> check_host(const HttpRequest& request) {
  const std::size_t hosts = count_fields(request, "host");
  if (hosts > 1)
    return HttpError{.status = 400, .message = "the request has more than one Host; send one"};
  if (hosts == 0 && request.version == 11)
    return HttpError{.status = 400, .message = "an HTTP/1.1 request needs a Host field"};
  return std::nullopt;
}

HttpError explain(beast::error_code error, const HttpLimits& limits) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return {.status = 431,
            .message = "the request line and header fields are longer than " +
                       std::to_string(limits.header_bytes) + " bytes; send fewer or shorter ones",
            .code = "header_too_large"};
  }
  if (error == http::error::body_limit) {
    return {.status = 413,
            .message = "the body is larger than " + std::to_string(limits.body_bytes) +
                       " bytes; send less",
            .code = "body_too_large"};
  }
  return {.status = 400, .message = "not a valid HTTP/1.1 request: " + error.message()};
}

}  // namespace

struct HttpParser::Message {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(const HttpLimits& limits) : limits_(limits) {}

HttpParser::~HttpParser() = default;

std::optional<HttpError> HttpParser::advance() {
  // Empty lines before a request are allowed (RFC 9112, 2.2); they must not start the clock of its
  // head.
  if (state_ == State::kEmpty)
    unread_.erase(0, std::min(unread_.find_first_not_of("\r\n"), unread_.size()));
  if (state_ == State::kDone || unread_.empty())
    return std::nullopt;
  if (state_ == State::kEmpty) {
    message_ = std::make_unique<Message>();
    message_->parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    message_->parser.body_limit(limits_.body_bytes);
    state_ = State::kHead;
  }
  if (auto error = feed())
    return error;
  if (state_ == State::kHead && message_->parser.is_header_done()) {
    if (auto error = read_head())
      return error;
    state_ = State::kBody;
  }
  if (state_ == State::kBody && message_->parser.is_done()) {
    request_.body = std::move(message_->parser.get().body());
    message_.reset();
    state_ = State::kDone;
  }
  return std::nullopt;
}

std::optional<HttpError> HttpParser::feed() {
  auto& parser = message_->parser;
  std::size_t used = 0;
  beast::error_code error;
  // One call parses one part; stops after the head so that it can be refused before the body is
  // read.
  while (used < unread_.size() && !parser.is_done()) {
    const bool head_was_done = parser.is_header_done();
    const std::size_t n =
        parser.put(boost::asio::buffer(unread_.data() + used, unread_.size() - used), error);
    used += n;
    if (error || n == 0)
      break;
    if (head_was_done)
      body_bytes_read_ += n;
    if (!head_was_done && parser.is_header_done())
      break;
  }
  unread_.erase(0, used);
  if (error == http::error::need_more)
    error = {};
  if (!error && !parser.is_header_done() && unread_.size() > limits_.header_bytes)
    error = http::error::header_limit;
  if (error)
    return explain(error, limits_);
  return std::nullopt;
}

std::optional<HttpError> HttpParser::read_head() {
  const auto& message = message_->parser.get();
  request_.method = std::string(message.method_string());
  request_.path = path_of(std::string_view(message.target().data(), message.target().size()));
  request_.version = static_cast<int>(message.version());
  request_.keep_alive = message.keep_alive();
  for (const auto& field : message)
    request_.fields.emplace_back(field.name_string(), field.value());
  if (request_.version != 11 && request_.version != 10) {
    return HttpError{.status = 400, .message = "only HTTP/1.1 and HTTP/1.0 are spoken here"};
  }
  if (auto error = check_framing(request_))
    return error;
  if (auto error = check_host(request_))
    return error;
  const std::string_view expect = request_.field("expect");
  expects_continue_ = equals_ignoring_case(expect, "100-continue");
  if (!expect.empty() && !expects_continue_) {
    return HttpError{.status = 417, .message = "the only expectation known here is 100-continue"};
  }
  return std::nullopt;
}

HttpRequest HttpParser::take() {
  CHECK(state_ == State::kDone);
  HttpRequest taken = std::exchange(request_, {});
  state_ = State::kEmpty;
  expects_continue_ = false;
  body_bytes_read_ = 0;
  return taken;
}

}  // namespace shoal
