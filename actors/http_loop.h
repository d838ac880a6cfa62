// One I/O thread: accepts, owns its connections, and runs everything of its shard. A socket never
// changes threads, so nothing here has a lock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>  // Boost 1.74 uses std::exchange without including it.
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "actors/http_config.h"
#include "actors/http_connection.h"
#include "actors/http_exchange.h"
#include "actors/http_metrics.h"
#include "actors/log.h"
#include "schemas/result.h"

namespace shoal {

struct HttpLoopParts {
  const HttpConfig& config;
  const HttpClocks& clocks;
  HttpMetrics& metrics;
  HttpApp& app;
  const EventLog& log;
  std::function<void()> all_idle;  // any loop's thread
};

class HttpLoop final : private HttpConnectionOwner {
 public:
  explicit HttpLoop(const HttpLoopParts& parts);
  ~HttpLoop() override;

  // `shared`: other loops listen on the same port. Returns the port.
  Result<std::uint16_t> listen(const boost::asio::ip::tcp::endpoint& endpoint, bool shared);
  void start();

  // From any thread: runs on the loop's thread, then writes what it brought.
  void post(std::function<void()> work);
  // From any other thread: every connection closes after its current answer. Runs `also` with it.
  // When it returns, every event that came before has been dealt with.
  void drain(const std::function<void()>& also);
  // From any other thread: accepts no more, and answers in progress end now, with an error each.
  void end_answers();
  // Cuts what is left and joins the thread. Twice is fine.
  void stop();

 private:
  void touch(HttpConnection& connection) override;
  void settle() override;
  void forget(HttpConnection& connection) override;

  std::pair<char*, std::size_t> scratch() override { return {scratch_.data(), scratch_.size()}; }

  Instant now() const override { return parts_.clocks.now(); }

  bool draining() const override { return draining_; }

  void all_idle() override { parts_.all_idle(); }

  void arm_accept();
  void accept_some();
  void adopt(boost::asio::ip::tcp::socket socket);
  void arm_tick();
  void on_tick();
  void tell_refused(Instant instant);
  std::vector<std::shared_ptr<HttpConnection>> all_connections() const;

  HttpLoopParts parts_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer ticker_{io_};
  std::unordered_map<std::uint64_t, std::shared_ptr<HttpConnection>> connections_;
  std::vector<std::shared_ptr<HttpConnection>> touched_;
  std::uint64_t last_id_ = 0;
  bool draining_ = false;
  std::int64_t refused_ = 0;  // connections beyond the limit that the log was not told of
  std::optional<Instant> told_refused_;
  bool accept_paused_ = false;  // out of file descriptors: tried again at the next tick
  std::array<char, 64 * 1024> scratch_;
  std::thread thread_;
};

}  // namespace shoal
