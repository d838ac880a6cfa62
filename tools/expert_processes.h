// Expert shards in processes of their own on loopback, for benchmarks: children of this process
// that end with it, without the actors of a node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "actors/expert_dispatch.h"
#include "kernels/launch_queue.h"
#include "kernels/registry.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/expert_exchange.h"
#include "transport/thread_scheduler.h"
#include "transport/transport.h"

namespace shoal::tools {

class ExpertProcesses {
 public:
  // All experts, spread evenly over `count` processes with a compute thread each. Forks: while this
  // process has one thread only.
  static Result<std::unique_ptr<ExpertProcesses>> start(const std::string& model, int count);
  ~ExpertProcesses();

  kernels::ExchangeRunner runner();

  transport::ExpertExchange::Use use() const { return exchange_->use(); }

  // That all shards together have computed so far. kUnavailable: one has ended.
  Result<Nanos> computed() const;

 private:
  struct Child {
    pid_t process = 0;
    int to = -1;    // pipe
    int from = -1;  // likewise
  };

  ExpertProcesses() = default;

  Result<void> fork_all(const std::string& model, int count);
  Result<void> connect(const std::string& model);

  std::vector<Child> children_;
  std::unique_ptr<transport::ThreadScheduler> timers_;  // a thread: behind the forks
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::ExpertExchange> exchange_;
  std::unique_ptr<ExpertDispatcher> dispatcher_;
};

}  // namespace shoal::tools
