// Bytes of one connection to requests, under the limits of head and body. Holds nothing between
// requests but the unread rest.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/http_config.h"
#include "actors/http_message.h"

namespace shoal {

class HttpParser {
 public:
  enum class State { kEmpty, kHead, kBody, kDone };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  // Bytes from the socket, kept until advance() uses them.
  void append(std::string_view bytes) { unread_ += bytes; }

  // Goes on as far as the bytes reach, but not beyond the end of the head in one call: the caller
  // looks at it first. An error ends the connection after it was answered.
  std::optional<HttpError> advance();

  State state() const { return state_; }

  // Valid in kBody and kDone; the body only in kDone.
  const HttpRequest& request() const { return request_; }

  bool expects_continue() const { return expects_continue_; }

  std::size_t body_bytes_read() const { return body_bytes_read_; }

  std::size_t unread_bytes() const { return unread_.size(); }

  // Hands out a kDone request and starts on the next one; pipelined bytes stay.
  HttpRequest take();

 private:
  struct Message;

  std::optional<HttpError> feed();
  std::optional<HttpError> read_head();

  const HttpLimits& limits_;
  std::unique_ptr<Message> message_;
  std::string unread_;
  State state_ = State::kEmpty;
  HttpRequest request_;
  bool expects_continue_ = false;
  std::size_t body_bytes_read_ = 0;
};

}  // namespace shoal
