// The front door over sockets: HTTP/1.1 in, server-sent events out, on N I/O threads of its own.
// Nothing of the socket library is visible here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/http_config.h"
#include "actors/http_service.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal {

// Must outlive the node's last delivery: stop the node first, or drain() here before.
class HttpServer {
 public:
  // Address and keys, without listening. kMisconfigured names the flag and what to do.
  static Result<void> check(const HttpConfig& config);
  // Listens and serves when it returns. kMisconfigured names the address and what to do.
  static Result<std::unique_ptr<HttpServer>> start(HttpConfig config, HttpParts parts);
  ~HttpServer();

  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"

  // Takes no new work (503) and says so on /ready, while the pages of monitors go on. When every
  // answer is sent, or at `deadline`, the port closes: stop(). True when nothing was cut.
  bool drain(Instant deadline);
  // Cuts what is in progress and joins the threads. Twice is fine.
  void stop();

  const HttpMetrics& metrics() const;

 private:
  struct Machinery;
  explicit HttpServer(std::unique_ptr<Machinery> machinery);

  std::unique_ptr<Machinery> machinery_;
};

}  // namespace shoal
