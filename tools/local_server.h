// A whole node with its HTTP side in this process: what `shoal serve` runs, and what `shoal chat`
// and the benchmarks start for themselves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "actors/config.h"
#include "actors/http_server.h"
#include "actors/node.h"
#include "kernels/launch_queue.h"
#include "kernels/registry.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "tools/server_plan.h"

namespace shoal::tools {

// Ports of a real process.
Instant monotonic_now();
std::int64_t unix_seconds_now();
std::uint64_t random_seed();

class LocalServer {
 public:
  // Serves when it returns. Errors name the file, field, flag or address and what to do.
  static Result<std::unique_ptr<LocalServer>> start(const Config& config);
  ~LocalServer();

  std::string url() const { return http_->url(); }

  std::string model_name() const { return model_name_; }

  // Open answers finish, up to `limit`. False when some were cut.
  bool drain(Nanos limit);
  // Ends everything. False: an actor still runs, and the process must leave by std::_Exit.
  bool stop();

 private:
  LocalServer() = default;
  Result<void> open_device(const Config& config, const ServerPlan& plan);
  Result<void> open_front(const Config& config, ServerPlan plan);

  std::string model_name_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::LaunchQueue> launcher_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<HttpServer> http_;
  std::shared_ptr<std::atomic<bool>> silent_ = std::make_shared<std::atomic<bool>>(false);
  bool stopped_ = false;
};

}  // namespace shoal::tools
