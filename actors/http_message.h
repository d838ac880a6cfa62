// A request as the routes see it and an answer as the socket sends it: plain values, no sockets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/codec/openai_shapes.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal {

struct HttpRequest {
  std::string method;
  std::string path;  // percent-decoded, without the query
  int version = 11;  // 10 or 11
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  std::string id{};  // what logs and the answer's x-request-id call it

  // First field of that name, in any case; empty when absent.
  std::string_view field(std::string_view name) const;
  bool has_field(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> fields{};
};

// A refusal before it has a shape: which status, and what the error object says.
struct HttpError {
  int status = 500;
  std::string message{};
  std::string param{};  // the field at fault; empty = null
  std::string code{};   // empty = null
  std::optional<Nanos> retry_after{};
};

// Statuses by who acts: see Code.
HttpError http_error(const Error& error, std::optional<Nanos> retry_after = std::nullopt);

// For requests that come while the server drains, and for answers cut when it stops.
HttpError shutting_down(Nanos retry_after);

// The error object as OpenAI's clients read it; points into `error`.
ErrorShape error_shape(const HttpError& error);
HttpReply error_reply(const HttpError& error);

// What every head says besides the reply's own fields.
struct HeadOptions {
  int version = 11;
  bool keep_alive = true;
  std::string request_id;
};

std::string whole_head(const HttpReply& reply, const HeadOptions& options);
// Head of a stream of server-sent events; chunked, or ended by the close for HTTP/1.0.
std::string stream_head(const HeadOptions& options);

void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// For texts of a client that come back in a message: paths and fields may hold any byte, JSON may
// not.
std::string replace_unprintable(std::string_view text);

bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace shoal
