// The life of one socket, see the header.
#include "actors/http_connection.h"

#include <algorithm>

#include "schemas/check.h"

namespace shoal {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr int kReadsPerEvent = 4;  // then the other connections of the thread have their turn
constexpr int kSendBuffer =
    64 * 1024;  // the default lets a client that reads nothing swallow 4 MB unnoticed

constexpr std::size_t kLoggedPathBytes = 200;

bool would_block(const ErrorCode& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

HttpReply timed_out(std::string message) {
  return error_reply({.status = 408, .message = std::move(message), .code = "request_timeout"});
}

}  // namespace

HttpConnection::HttpConnection(tcp::socket socket, HttpConnectionParts parts, std::uint64_t id)
    : socket_(std::move(socket)),
      parts_(parts),
      id_(id),
      parser_(parts.limits),
      since_(parts.owner.now()),
      last_write_(since_) {
  ErrorCode ignored;  // options are wishes
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  parts_.metrics.connections.fetch_add(1);
}

HttpConnection::~HttpConnection() {
  parts_.metrics.connections.fetch_sub(1);
}

void HttpConnection::start() {
  arm_read();
}

void HttpConnection::start_refused(HttpReply reply) {
  reply_and_close(std::move(reply));
  mark();
  arm_read();
}

void HttpConnection::arm_read() {
  const bool full = answering_ && parser_.unread_bytes() > parts_.limits.pipelined_bytes;
  if (closed_ || read_armed_ || saw_end_ || full)
    return;
  read_armed_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    self->read_armed_ = false;
    if (error || self->closed_)
      return;
    self->on_readable();
    self->mark();
    self->parts_.owner.settle();
  });
}

void HttpConnection::on_readable() {
  const auto [buffer, size] = parts_.owner.scratch();
  for (int turn = 0; turn < kReadsPerEvent; ++turn) {
    ErrorCode error;
    const std::size_t n = socket_.read_some(asio::buffer(buffer, size), error);
    if (would_block(error))
      return;
    if (error == asio::error::eof) {
      saw_end_ = true;
      return;
    }
    if (error)
      return cut(ClientGone::kClosed);
    parts_.metrics.bytes_received.fetch_add(static_cast<std::int64_t>(n),
                                            std::memory_order_relaxed);
    if (!closing_)
      parser_.append({buffer, n});
    if (n < size)
      return;
  }
}

void HttpConnection::mark() {
  if (marked_)
    return;
  marked_ = true;
  parts_.owner.touch(*this);
}

void HttpConnection::settle() {
  marked_ = false;
  bool again = !closed_;
  while (again) {
    const bool stopped_full = !read_requests();
    flush();
    again = stopped_full && !closed_ && !is_full();
  }
  if (closed_)
    return;
  // A client that half-closes while it waits cannot be told from one that left: both are cut.
  if (saw_end_ && (exchange_ || pending() == 0))
    return cut(ClientGone::kClosed);
  update_busy();
  arm_read();
}

// False when it stopped because too much is unsent: pipelined requests must not make the buffer
// grow without end.
bool HttpConnection::read_requests() {
  while (!closed_) {
    if (answer_ended_)
      end_answer();
    if (answering_ || closing_)
      return true;
    if (is_full())
      return false;
    if (!read_one_request())
      return true;
  }
  return true;
}

// Whether there was progress, so that the caller goes on.
bool HttpConnection::read_one_request() {
  const auto state_before = parser_.state();
  const std::size_t unread_before = parser_.unread_bytes();
  if (auto error = parser_.advance()) {
    refuse(error_reply(*error));
    return false;
  }
  note_state();
  if (!count_body()) {
    refuse(error_reply({.status = 503,
                        .message = "too many large requests are being read; try again later",
                        .code = "no_capacity",
                        .retry_after = parts_.limits.retry_after}));
    return false;
  }
  const bool has_head =
      parser_.state() == HttpParser::State::kBody || parser_.state() == HttpParser::State::kDone;
  if (has_head && !head_checked_) {
    if (auto refusal = check_head())
      return answer_refused(std::move(*refusal));
  }
  if (parser_.state() == HttpParser::State::kDone) {
    begin_answer();
    return true;
  }
  return parser_.state() != state_before || parser_.unread_bytes() != unread_before;
}

void HttpConnection::note_state() {
  if (parser_.state() == timed_state_)
    return;
  timed_state_ = parser_.state();
  since_ = parts_.owner.now();
}

// False when the bodies of all connections together are too much.
bool HttpConnection::count_body() {
  const auto bytes = closed_ ? 0 : static_cast<std::int64_t>(parser_.body_bytes_read());
  const auto before = parts_.metrics.body_bytes.fetch_add(bytes - counted_body_);
  const auto added = bytes - std::exchange(counted_body_, bytes);
  return added <= 0 || before + added <= static_cast<std::int64_t>(parts_.limits.all_bodies_bytes);
}

std::optional<HttpReply> HttpConnection::check_head() {
  const HttpRequest& head = parser_.request();
  head_checked_ = true;
  version_ = head.version;
  keep_alive_ = head.keep_alive && !parts_.owner.draining();
  head_only_ = head.method == "HEAD";
  request_id_ = parts_.app.request_id(head);
  path_ = replace_unprintable(std::string_view(head.path).substr(0, kLoggedPathBytes));
  if (auto refusal = parts_.app.refuse(head))
    return refusal;
  if (parser_.expects_continue() && parser_.state() == HttpParser::State::kBody)
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  return std::nullopt;
}

bool HttpConnection::answer_refused(HttpReply refusal) {
  // A small body that is here already is no reason to close.
  const bool whole = !parser_.advance() && parser_.state() == HttpParser::State::kDone;
  if (!whole) {
    refuse(std::move(refusal));
    return false;
  }
  take_request();
  reply(std::move(refusal));
  return true;
}

HttpRequest HttpConnection::take_request() {
  answering_ = true;
  head_checked_ = false;
  timed_state_ = HttpParser::State::kEmpty;
  HttpRequest request = parser_.take();
  request.id = request_id_;
  count_body();
  update_busy();
  return request;
}

void HttpConnection::begin_answer() {
  auto exchange = parts_.app.answer(take_request(), *this);
  if (answer_ended_)
    return;
  CHECK(exchange != nullptr);
  exchange_ = std::move(exchange);
}

void HttpConnection::end_answer() {
  frame_events();
  if (streaming_ && version_ != 10)
    out_ += kLastChunk;
  if (!keep_alive_)
    closing_ = true;
  exchange_.reset();
  request_id_.clear();
  path_.clear();
  version_ = 11;
  answering_ = answer_ended_ = streaming_ = head_only_ = false;
  since_ = parts_.owner.now();
}

// An answer after which the connection cannot be used: the rest of the request is not read.
void HttpConnection::refuse(HttpReply refusal) {
  log_refusal(refusal.status);
  reply_and_close(std::move(refusal));
}

void HttpConnection::reply_and_close(HttpReply reply) {
  keep_alive_ = false;
  append_reply(reply);
  answer_ended_ = false;
  closing_ = true;
}

HeadOptions HttpConnection::head_options() const {
  return {.version = version_, .keep_alive = keep_alive_, .request_id = request_id_};
}

void HttpConnection::reply(HttpReply reply) {
  if (reply.status >= 400)
    log_refusal(reply.status);
  append_reply(reply);
}

// The client's own mistakes are of no interest to an operator who does not look for them.
void HttpConnection::log_refusal(int status) const {
  parts_.log.event(status >= 500 ? LogLevel::kInfo : LogLevel::kDebug,
                   "http.refused",
                   {{"id", request_id_}, {"path", path_}, {"status", status}});
}

void HttpConnection::log_cut(ClientGone cause) const {
  parts_.log.event(LogLevel::kInfo,
                   "http.client_cut",
                   {{"id", request_id_},
                    {"path", path_},
                    {"reason", cause == ClientGone::kStalled ? "stalled" : "too_slow"},
                    {"unsent_bytes", pending()}});
}

void HttpConnection::append_reply(const HttpReply& reply) {
  CHECK(!answer_ended_ && !streaming_);
  parts_.metrics.replies_by_class[static_cast<std::size_t>(reply.status / 100)].fetch_add(
      1, std::memory_order_relaxed);
  if (pending() == 0)
    last_write_ = parts_.owner.now();
  out_ += whole_head(reply, head_options());
  if (!head_only_)
    out_ += reply.body;
  answer_ended_ = true;
  mark();
}

void HttpConnection::begin_events() {
  CHECK(answering_ && !streaming_);
  parts_.metrics.replies_by_class[2].fetch_add(1, std::memory_order_relaxed);
  if (version_ == 10)
    keep_alive_ = false;  // only the close says where the stream ends
  if (pending() == 0)
    last_write_ = parts_.owner.now();
  out_ += stream_head(head_options());
  streaming_ = true;
  mark();
}

void HttpConnection::events(std::string_view bytes) {
  CHECK(streaming_ && !answer_ended_);
  if (pending() == 0)
    last_write_ = parts_.owner.now();
  events_ += bytes;
  mark();
}

void HttpConnection::end_events() {
  CHECK(streaming_ && !answer_ended_);
  answer_ended_ = true;
  mark();
}

// One chunk for all events of one turn.
void HttpConnection::frame_events() {
  if (version_ == 10) {
    out_ += events_;
  } else {
    append_chunk(out_, events_);
  }
  events_.clear();
}

void HttpConnection::flush() {
  if (closed_)
    return;
  frame_events();
  if (!write_armed_)
    write_some();
  if (closed_)
    return;
  if (streaming_ && is_full())
    return cut(ClientGone::kTooSlow);
  if (pending() == 0 && closing_ && !lingering_)
    finish_writing();
}

void HttpConnection::write_some() {
  while (written_ < out_.size()) {
    ErrorCode error;
    const std::size_t n =
        socket_.write_some(asio::buffer(out_.data() + written_, out_.size() - written_), error);
    if (would_block(error))
      return arm_write();
    if (error)
      return cut(ClientGone::kClosed);
    parts_.metrics.socket_writes.fetch_add(1, std::memory_order_relaxed);
    parts_.metrics.bytes_sent.fetch_add(static_cast<std::int64_t>(n), std::memory_order_relaxed);
    written_ += n;
    last_write_ = parts_.owner.now();
  }
  written_ = 0;
  out_.clear();
  if (out_.capacity() > parts_.limits.pending_bytes)
    out_.shrink_to_fit();
}

void HttpConnection::arm_write() {
  write_armed_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](ErrorCode error) {
    self->write_armed_ = false;
    if (error || self->closed_)
      return;
    self->mark();
    self->parts_.owner.settle();
  });
}

// Closing while the client still sends would reset the connection and may destroy the answer before
// it is read.
void HttpConnection::finish_writing() {
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  lingering_ = true;
  since_ = parts_.owner.now();
}

void HttpConnection::on_tick(Instant now) {
  const HttpLimits& limits = parts_.limits;
  if (closed_)
    return;
  if (lingering_) {
    if (now - since_ > limits.linger_timeout)
      cut(ClientGone::kClosed);
    return;
  }
  if (pending() > 0 && now - last_write_ > limits.write_stall_timeout)
    return cut(ClientGone::kStalled);
  if (exchange_)
    return exchange_->on_tick(now);
  if (answering_ || closing_ || pending() > 0)
    return;
  const auto body_time = limits.body_timeout +
                         std::chrono::seconds(parser_.body_bytes_read() / limits.body_bytes_per_s);
  switch (parser_.state()) {
    case HttpParser::State::kEmpty:
      if (now - since_ > limits.idle_timeout)
        cut(ClientGone::kClosed);
      return;
    case HttpParser::State::kHead:
      if (now - since_ > limits.header_timeout)
        refuse(timed_out("the header did not arrive in time; send it at once"));
      return;
    case HttpParser::State::kBody:
      if (now - since_ > body_time)
        refuse(timed_out("the body did not arrive in time; send it faster"));
      return;
    case HttpParser::State::kDone:
      return;
  }
}

void HttpConnection::shut_down() {
  if (closed_ || closing_)
    return;
  keep_alive_ = false;
  if (exchange_ && !answer_ended_) {
    parts_.metrics.clients_gone[static_cast<std::size_t>(ClientGone::kShutdown)].fetch_add(
        1, std::memory_order_relaxed);
    exchange_->on_shutdown();
  }
  if (!answering_)
    closing_ = true;
  mark();
}

void HttpConnection::cut(ClientGone cause) {
  if (closed_)
    return;
  if (cause == ClientGone::kStalled || cause == ClientGone::kTooSlow)
    log_cut(cause);
  if (exchange_) {
    parts_.metrics.clients_gone[static_cast<std::size_t>(cause)].fetch_add(
        1, std::memory_order_relaxed);
    if (!answer_ended_)
      exchange_->on_client_left();
    exchange_.reset();
  }
  close();
}

void HttpConnection::close() {
  closed_ = true;
  out_.clear();
  events_.clear();
  written_ = 0;
  ErrorCode ignored;
  socket_.close(ignored);
  count_body();
  update_busy();
  parts_.owner.forget(*this);
}

void HttpConnection::update_busy() {
  const bool busy = !closed_ && !lingering_ && (answering_ || pending() > 0);
  if (busy == busy_)
    return;
  busy_ = busy;
  if (parts_.metrics.busy_connections.fetch_add(busy ? 1 : -1) == 1 && !busy)
    parts_.owner.all_idle();
}

}  // namespace shoal
