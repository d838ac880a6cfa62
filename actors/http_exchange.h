// What a connection and the answer being made on it say to each other; all on the thread of their
// shard. No sockets here, so that answers are made and tested without one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "actors/http_message.h"
#include "schemas/units.h"

namespace shoal {

// Where an answer goes. Nothing is written before the thread is done with its current event: what
// arrives in one event leaves in one write.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;

  // Exactly one of: reply(), or begin_events() followed by events() and end_events().
  virtual void reply(HttpReply reply) = 0;
  virtual void begin_events() = 0;
  virtual void events(std::string_view bytes) = 0;  // whole server-sent events
  virtual void end_events() = 0;
};

// An answer that takes longer than one event. Held by its connection until it ended or the client
// left; others hold it weakly.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual void on_client_left() = 0;  // nothing can be sent any more; destroyed next
  // The server stops: ends the answer with an error before it returns, unless it ended already.
  virtual void on_shutdown() = 0;
  virtual void on_tick(Instant now) = 0;
};

// The routes of one shard.
class HttpApp {
 public:
  virtual ~HttpApp() = default;
  // Whether to refuse a request by its head alone, before its body is read.
  virtual std::optional<HttpReply> refuse(const HttpRequest& head) = 0;
  // Answers now and returns null, or returns the answer in the making.
  virtual std::shared_ptr<HttpExchange> answer(HttpRequest request, HttpResponder& responder) = 0;
  // What to call this request in logs and in the x-request-id of its answer.
  virtual std::string request_id(const HttpRequest& request) = 0;
};

// Both clocks as ports: deadlines are measured on the first, `created` fields say the second.
struct HttpClocks {
  std::function<Instant()> now;
  std::function<std::int64_t()> unix_seconds;
};

}  // namespace shoal
