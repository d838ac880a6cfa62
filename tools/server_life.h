// The life of a process that serves: until SIGTERM or SIGINT, of which the first one drains and a
// second one leaves at once, or until the node cannot serve any more.
#pragma once

#include <functional>
#include <memory>

#include "schemas/result.h"
#include "schemas/units.h"
#include "tools/local_server.h"

namespace shoal::tools {

struct ServerLife {
  std::function<Result<std::unique_ptr<LocalServer>>()> start;
  std::function<void(const LocalServer&, Nanos took)> ready;
  Nanos drain_limit;
};

// Returns only when the server did not start; otherwise the process ends in here.
int run_until_signal(const ServerLife& life);

}  // namespace shoal::tools
