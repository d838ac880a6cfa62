// Heads, chunk frames and error bodies, written by hand: a stream's frames cost no library call.
#include "actors/http_message.h"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace shoal {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Internal Server Error";
  }
}

// OpenAI's names, which its clients map to exception types.
std::string_view error_type(int status) {
  if (status == 401)
    return "authentication_error";
  if (status == 404)
    return "not_found_error";
  if (status == 429)
    return "rate_limit_error";
  if (status == 503)
    return "service_unavailable_error";
  if (status == 408 || status == 504)
    return "timeout_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

std::string status_line(int status, const HeadOptions& options) {
  std::string out = options.version == 10 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out.append(std::to_string(status)).append(" ").append(reason(status)).append("\r\n");
  return out;
}

void append_common_fields(std::string& out, const HeadOptions& options) {
  if (!options.request_id.empty())
    append_field(out, "x-request-id", options.request_id);
  if (!options.keep_alive) {
    append_field(out, "Connection", "close");
  } else if (options.version == 10) {
    append_field(out, "Connection", "keep-alive");
  }
}

int status_of(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kTooLarge:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kUnauthorized:
      return 401;
    case Code::kDeadline:
      return 504;
    case Code::kNoCapacity:
    case Code::kPeerLost:
    case Code::kUnavailable:
      return 503;
    case Code::kCancelled:
    case Code::kCorrupt:
    case Code::kMisconfigured:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string replace_unprintable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out;
}

std::string_view HttpRequest::field(std::string_view name) const {
  for (const auto& [field_name, value] : fields) {
    if (equals_ignoring_case(field_name, name))
      return value;
  }
  return {};
}

bool HttpRequest::has_field(std::string_view name) const {
  return std::ranges::any_of(
      fields, [name](const auto& field) { return equals_ignoring_case(field.first, name); });
}

HttpError http_error(const Error& error, std::optional<Nanos> retry_after) {
  return {.status = status_of(error.code),
          .message = error.message,
          .param = error.field,
          .code = std::string(to_string(error.code)),
          .retry_after = retry_after};
}

HttpError shutting_down(Nanos retry_after) {
  return {.status = 503,
          .message = "the server is shutting down; try again elsewhere or in a moment",
          .code = "draining",
          .retry_after = retry_after};
}

ErrorShape error_shape(const HttpError& error) {
  return {.message = error.message,
          .type = error_type(error.status),
          .param = error.param,
          .code = error.code};
}

HttpReply error_reply(const HttpError& error) {
  HttpReply reply{.status = error.status, .body = error_body(error_shape(error))};
  if (error.retry_after) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*error.retry_after).count();
    reply.fields.emplace_back("Retry-After", std::to_string(std::max<std::int64_t>(1, seconds)));
  }
  if (error.status == 401)
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

std::string whole_head(const HttpReply& reply, const HeadOptions& options) {
  std::string out = status_line(reply.status, options);
  if (reply.status != 204) {
    append_field(out, "Content-Type", reply.content_type);
    append_field(out, "Content-Length", std::to_string(reply.body.size()));
  }
  for (const auto& [name, value] : reply.fields)
    append_field(out, name, value);
  append_common_fields(out, options);
  out += "\r\n";
  return out;
}

std::string stream_head(const HeadOptions& options) {
  std::string out = status_line(200, options);
  append_field(out, "Content-Type", "text/event-stream; charset=utf-8");
  append_field(out, "Cache-Control", "no-cache");
  append_field(out, "X-Accel-Buffering", "no");  // nginx would hold the events back
  if (options.version != 10)
    append_field(out, "Transfer-Encoding", "chunked");
  append_common_fields(out, options);
  out += "\r\n";
  return out;
}

void append_chunk(std::string& out, std::string_view data) {
  if (data.empty())
    return;  // an empty chunk would end the body
  char digits[16];
  const auto written = std::to_chars(digits, digits + sizeof digits, data.size(), 16);
  out.append(digits, written.ptr).append("\r\n").append(data).append("\r\n");
}

}  // namespace shoal
