// One socket: reads requests, lets the shard answer them in order, writes the answers, and ends it
// when a limit is passed.
//
// All calls come from the thread of its loop. Work is done in settle(), after the event that caused
// it, so an answer can end from inside a callback and everything one event brought leaves in one
// write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>  // Boost 1.74 uses std::exchange without including it.

#include <boost/asio/ip/tcp.hpp>

#include "actors/http_config.h"
#include "actors/http_exchange.h"
#include "actors/http_metrics.h"
#include "actors/http_parser.h"
#include "actors/log.h"

namespace shoal {

class HttpConnection;

// What a connection needs of the loop that owns it.
class HttpConnectionOwner {
 public:
  virtual ~HttpConnectionOwner() = default;
  virtual void touch(
      HttpConnection& connection) = 0;  // settle() it at the end of the current event
  virtual void settle() = 0;            // the current event is over
  virtual void forget(HttpConnection& connection) = 0;
  virtual std::pair<char*, std::size_t>
  scratch() = 0;  // read buffer of the thread: idle connections hold none
  virtual Instant now() const = 0;
  virtual bool draining() const = 0;
  virtual void all_idle() = 0;  // no connection of any loop has an answer to make or bytes to send
};

struct HttpConnectionParts {
  HttpConnectionOwner& owner;
  HttpApp& app;
  HttpMetrics& metrics;
  const EventLog& log;
  const HttpLimits& limits;
};

class HttpConnection final : public HttpResponder,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, HttpConnectionParts parts, std::uint64_t id);
  ~HttpConnection() override;

  void start();
  // Answers without reading a request, then closes: too many connections.
  void start_refused(HttpReply reply);
  void on_tick(Instant now);
  // Advances as far as bytes and answers allow, and writes.
  void settle();
  // The server stops: an answer in progress ends with an error, then the connection closes.
  void shut_down();
  // The client cannot be answered any more, or must not be.
  void cut(ClientGone cause);

  std::uint64_t id() const { return id_; }

  void reply(HttpReply reply) override;
  void begin_events() override;
  void events(std::string_view bytes) override;
  void end_events() override;

 private:
  void mark();
  void arm_read();
  void arm_write();
  void on_readable();
  bool read_requests();
  bool read_one_request();
  void note_state();
  bool count_body();
  std::optional<HttpReply> check_head();
  bool answer_refused(HttpReply refusal);
  HttpRequest take_request();
  void begin_answer();
  void end_answer();
  void refuse(HttpReply refusal);
  void reply_and_close(HttpReply reply);
  void append_reply(const HttpReply& reply);
  void log_refusal(int status) const;
  void log_cut(ClientGone cause) const;
  void frame_events();
  void flush();
  void write_some();
  void finish_writing();
  void close();
  void update_busy();
  HeadOptions head_options() const;

  std::size_t pending() const { return out_.size() - written_ + events_.size(); }

  bool is_full() const { return pending() > parts_.limits.pending_bytes; }

  boost::asio::ip::tcp::socket socket_;
  HttpConnectionParts parts_;
  std::uint64_t id_;
  HttpParser parser_;

  std::string out_;  // framed bytes; those before written_ are sent
  std::size_t written_ = 0;
  std::string events_;  // of this event, one chunk when it ends
  std::shared_ptr<HttpExchange> exchange_;

  std::int64_t counted_body_ = 0;  // bytes in HttpMetrics::body_bytes

  std::string request_id_;
  std::string path_;  // for the log
  int version_ = 11;
  bool keep_alive_ = true;
  bool head_only_ = false;     // HEAD: the answer has no body
  bool head_checked_ = false;  // the current request passed HttpApp::refuse
  bool answering_ = false;     // between a whole request and the end of its answer
  bool answer_ended_ = false;
  bool streaming_ = false;
  bool closing_ = false;    // nothing more is answered; closed once out_ is sent
  bool lingering_ = false;  // all is sent; reading on so that a reset does not destroy it
  bool saw_end_ = false;    // the client sends no more
  bool closed_ = false;
  bool busy_ = false;
  bool marked_ = false;  // settle() is due
  bool read_armed_ = false;
  bool write_armed_ = false;
  Instant since_;  // of the parser's state, or of lingering
  HttpParser::State timed_state_ = HttpParser::State::kEmpty;
  Instant last_write_;  // when bytes were last taken, or there first were any
};

}  // namespace shoal
