// Accepting, ticking and settling on one I/O thread, see the header.
#include "actors/http_loop.h"

#include <chrono>
#include <future>

#include <boost/asio/post.hpp>

namespace shoal {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

constexpr int kAcceptsPerEvent =
    64;  // one a turn lets the queue overflow when thousands connect at once
constexpr int kAcceptQueue = 4096;
constexpr std::chrono::seconds kBetweenRefusalLines{1};

std::string where(const tcp::endpoint& endpoint) {
  return endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

tl::unexpected<Error> cannot_listen(const tcp::endpoint& endpoint, const ErrorCode& error) {
  std::string advice = error.message();
  if (error == asio::error::address_in_use)
    advice = "the port is in use; stop the other program or choose another port";
  if (error == asio::error::access_denied)
    advice = "not permitted; choose a port of 1024 or above";
  if (error == asio::error::no_such_device || error.value() == EADDRNOTAVAIL) {
    advice = "this machine does not have that address; choose another host";
  }
  return fail(Code::kMisconfigured, "cannot listen on " + where(endpoint) + ": " + advice);
}

}  // namespace

HttpLoop::HttpLoop(const HttpLoopParts& parts) : parts_(parts) {}

HttpLoop::~HttpLoop() {
  stop();
}

Result<std::uint16_t> HttpLoop::listen(const tcp::endpoint& endpoint, bool shared) {
  ErrorCode error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error)
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && shared)
    acceptor_.set_option(ReusePort(true), error);
  if (!error)
    acceptor_.bind(endpoint, error);
  if (!error)
    acceptor_.listen(kAcceptQueue, error);
  if (!error)
    acceptor_.non_blocking(true, error);
  if (error)
    return cannot_listen(endpoint, error);
  const tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error)
    return cannot_listen(endpoint, error);
  return bound.port();
}

void HttpLoop::start() {
  arm_accept();
  arm_tick();
  thread_ = std::thread([this] { io_.run(); });
}

void HttpLoop::post(std::function<void()> work) {
  asio::post(io_, [this, work = std::move(work)] {
    work();
    settle();
  });
}

void HttpLoop::drain(const std::function<void()>& also) {
  if (!thread_.joinable())
    return;
  std::promise<void> done;
  post([this, &also, &done] {
    also();
    draining_ = true;
    done.set_value();
  });
  done.get_future().wait();
}

void HttpLoop::end_answers() {
  drain([this] {
    ErrorCode ignored;
    acceptor_.close(ignored);
    for (const auto& connection : all_connections())
      connection->shut_down();
  });
}

void HttpLoop::stop() {
  if (!thread_.joinable())
    return;
  post([this] {
    ErrorCode ignored;
    acceptor_.close(ignored);
    for (const auto& connection : all_connections())
      connection->cut(ClientGone::kShutdown);
    io_.stop();
  });
  thread_.join();
}

void HttpLoop::arm_accept() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](ErrorCode error) {
    if (error)
      return;
    accept_some();
    settle();
  });
}

void HttpLoop::accept_some() {
  for (int turn = 0; turn < kAcceptsPerEvent; ++turn) {
    ErrorCode error;
    tcp::socket socket = acceptor_.accept(error);
    if (error == asio::error::would_block || error == asio::error::try_again)
      break;
    if (error == asio::error::no_descriptors || error.value() == ENFILE ||
        error.value() == ENOMEM) {
      accept_paused_ = true;
      return;
    }
    if (!error)
      adopt(std::move(socket));
  }
  arm_accept();
}

void HttpLoop::adopt(tcp::socket socket) {
  const HttpLimits& limits = parts_.config.limits;
  const auto open = static_cast<std::size_t>(parts_.metrics.connections.load());
  refused_ += open < limits.connections ? 0 : 1;
  // Refusing costs a socket for a moment as well: a flood is dropped without an answer.
  if (open >= limits.connections + limits.connections / 10 + 1)
    return;
  const HttpConnectionParts parts{.owner = *this,
                                  .app = parts_.app,
                                  .metrics = parts_.metrics,
                                  .log = parts_.log,
                                  .limits = limits};
  auto connection = std::make_shared<HttpConnection>(std::move(socket), parts, ++last_id_);
  connections_.emplace(connection->id(), connection);
  if (open < limits.connections)
    return connection->start();
  connection->start_refused(
      error_reply({.status = 503,
                   .message = "too many connections (" + std::to_string(limits.connections) +
                              "); try again later",
                   .code = "too_many_connections",
                   .retry_after = limits.retry_after}));
}

void HttpLoop::arm_tick() {
  ticker_.expires_after(parts_.config.tick);
  ticker_.async_wait([this](ErrorCode error) {
    if (error)
      return;
    on_tick();
    settle();
    arm_tick();
  });
}

// A sweep of 10,000 connections four times a second costs less than arming a timer for each
// operation.
void HttpLoop::on_tick() {
  const Instant instant = now();
  for (const auto& connection : all_connections()) {
    connection->on_tick(instant);
  }
  tell_refused(instant);
  if (accept_paused_ && acceptor_.is_open()) {
    accept_paused_ = false;
    arm_accept();
  }
}

// A flood of connections must not become a flood of lines.
void HttpLoop::tell_refused(Instant instant) {
  if (refused_ == 0 || (told_refused_ && instant - *told_refused_ < kBetweenRefusalLines))
    return;
  parts_.log.event(
      LogLevel::kWarning,
      "http.connections_refused",
      {{"count", std::exchange(refused_, 0)}, {"limit", parts_.config.limits.connections}});
  told_refused_ = instant;
}

std::vector<std::shared_ptr<HttpConnection>> HttpLoop::all_connections() const {
  std::vector<std::shared_ptr<HttpConnection>> all;
  all.reserve(connections_.size());
  for (const auto& [id, connection] : connections_)
    all.push_back(connection);
  return all;
}

void HttpLoop::touch(HttpConnection& connection) {
  touched_.push_back(connection.shared_from_this());
}

void HttpLoop::settle() {
  while (!touched_.empty()) {
    const auto touched = std::exchange(touched_, {});
    for (const auto& connection : touched)
      connection->settle();
  }
}

void HttpLoop::forget(HttpConnection& connection) {
  connections_.erase(connection.id());
}

}  // namespace shoal
