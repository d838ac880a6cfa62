// Puts shards on their I/O threads, opens the port, and takes both down again.
#include "actors/http_server.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/http_loop.h"
#include "actors/http_shard.h"
#include "actors/http_worker.h"

namespace shoal {
namespace {

using tcp = boost::asio::ip::tcp;

// For the last bytes of answers that a stop ended: a client that still does not take them is cut.
constexpr std::chrono::seconds kLastWrites{1};

Result<tcp::endpoint> endpoint_of(const HttpConfig& config) {
  const std::string host = config.host == "localhost" ? "127.0.0.1" : config.host;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  if (error) {
    return fail(
        Code::kMisconfigured,
        "--host " + config.host + " is not an IP address; give one, such as 127.0.0.1 or 0.0.0.0");
  }
  if (config.keys.empty() && !address.is_loopback()) {
    return fail(Code::kMisconfigured,
                "--host " + config.host +
                    " would be open to everybody; set --api-key, or listen on 127.0.0.1");
  }
  return tcp::endpoint(address, config.port);
}

// With SO_REUSEPORT a second program of the same user could share the port unnoticed, so it is
// first tried without.
Result<std::uint16_t> find_port(const HttpLoopParts& parts, const tcp::endpoint& endpoint) {
  return HttpLoop(parts).listen(endpoint, false);
}

}  // namespace

struct HttpServer::Machinery {
  Machinery(HttpConfig given_config, HttpParts given_parts)
      : config(std::move(given_config)),
        parts(std::move(given_parts)),
        service(config, parts, metrics),
        worker(config.limits.queued_bodies) {}

  Result<void> open();

  bool is_busy() const { return metrics.busy_connections.load() > 0; }

  void note_idle();
  // False: something was still in the making at `deadline`.
  bool wait_until_idle(Instant deadline);
  void wait_for_last_writes();
  void log(std::string_view event) const;

  HttpConfig config;
  HttpParts parts;
  HttpMetrics metrics;
  HttpService service;
  HttpWorker worker;
  std::mutex mutex;
  std::condition_variable became_idle;
  std::uint64_t idle_moments = 0;  // how often nothing was in the making; guarded by mutex
  bool open_for_clients = false;
  std::vector<std::unique_ptr<HttpShard>> shards;
  std::vector<std::unique_ptr<HttpLoop>> loops;
  tcp::endpoint endpoint;
};

void HttpServer::Machinery::note_idle() {
  {
    const std::lock_guard lock(mutex);
    ++idle_moments;
  }
  became_idle.notify_all();
}

// One idle moment is enough: what comes behind it are pages, which nobody waits for.
bool HttpServer::Machinery::wait_until_idle(Instant deadline) {
  std::unique_lock lock(mutex);
  const std::uint64_t before = idle_moments;
  // The deadline is on the clock port, so it is looked at every tick.
  while (is_busy() && idle_moments == before) {
    if (parts.clocks.now() >= deadline)
      return false;
    became_idle.wait_for(lock, config.tick);
  }
  return true;
}

void HttpServer::Machinery::log(std::string_view event) const {
  parts.log.event(LogLevel::kInfo,
                  event,
                  {{"address", endpoint.address().to_string()},
                   {"port", endpoint.port()},
                   {"busy_connections", metrics.busy_connections.load()}});
}

void HttpServer::Machinery::wait_for_last_writes() {
  std::unique_lock lock(mutex);
  became_idle.wait_for(lock, kLastWrites, [this] { return !is_busy(); });
}

Result<void> HttpServer::Machinery::open() {
  TRY(endpoint, endpoint_of(config));
  for (std::uint32_t index = 0; index < config.shards; ++index) {
    shards.push_back(std::make_unique<HttpShard>(index, service, worker));
    HttpShard& shard = *shards.back();
    const HttpLoopParts loop_parts{.config = config,
                                   .clocks = parts.clocks,
                                   .metrics = metrics,
                                   .app = shard,
                                   .log = parts.log,
                                   .all_idle = [this] { note_idle(); }};
    if (index == 0 && config.shards > 1) {
      TRY(const std::uint16_t port, find_port(loop_parts, endpoint));
      endpoint.port(port);
    }
    loops.push_back(std::make_unique<HttpLoop>(loop_parts));
    HttpLoop& loop = *loops.back();
    TRY(const std::uint16_t port, loop.listen(endpoint, config.shards > 1));
    endpoint.port(port);
    shard.connect([&loop](std::function<void()> work) { loop.post(std::move(work)); });
  }
  for (std::uint32_t index = 0; index < config.shards && !config.is_for_monitors; ++index)
    parts.front_door.attach(index, *shards[index]);
  for (const auto& loop : loops)
    loop->start();
  open_for_clients = true;
  log("http.listening");
  return {};
}

Result<void> HttpServer::check(const HttpConfig& config) {
  if (config.shards == 0)
    return fail(Code::kMisconfigured, "http shards is 0; at least one is needed");
  for (const ApiKey& key : config.keys) {
    if (key.key.empty())
      return fail(Code::kMisconfigured, "an --api-key is empty; give it a value");
  }
  TRY_VOID(endpoint_of(config));
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpConfig config, HttpParts parts) {
  TRY_VOID(check(config));
  if (parts.model.names.empty() && !config.is_for_monitors)
    return fail(Code::kMisconfigured, "the served model has no name; set --served-model-name");
  auto machinery = std::make_unique<Machinery>(std::move(config), std::move(parts));
  TRY_VOID(machinery->open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(machinery)));
}

HttpServer::HttpServer(std::unique_ptr<Machinery> machinery) : machinery_(std::move(machinery)) {}

HttpServer::~HttpServer() {
  stop();
}

std::uint16_t HttpServer::port() const {
  return machinery_->endpoint.port();
}

std::string HttpServer::url() const {
  const auto address = machinery_->endpoint.address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return "http://" + host + ":" + std::to_string(port());
}

bool HttpServer::drain(Instant deadline) {
  for (std::size_t i = 0; i < machinery_->loops.size(); ++i) {
    HttpShard& shard = *machinery_->shards[i];
    machinery_->loops[i]->drain([&shard] { shard.start_draining(); });
  }
  machinery_->log("http.draining");
  const bool complete = machinery_->wait_until_idle(deadline);
  stop();
  return complete;
}

void HttpServer::stop() {
  // The worker first: what it finishes is posted to loops that still run.
  machinery_->worker.stop();
  for (const auto& loop : machinery_->loops)
    loop->end_answers();
  machinery_->wait_for_last_writes();
  for (const auto& loop : machinery_->loops)
    loop->stop();
  if (std::exchange(machinery_->open_for_clients, false))
    machinery_->log("http.closed");
}

const HttpMetrics& HttpServer::metrics() const {
  return machinery_->metrics;
}

}  // namespace shoal
