// Waits with a limit for the last actor of a system, which CAF itself does without one only.
#pragma once

#include <future>
#include <memory>
#include <thread>

#include "actors/caf.h"

namespace shoal {

// False: some are left after `limit`. The system must then live as long as the process, as a thread
// still waits for it.
inline bool wait_until_empty(caf::actor_system& system, Nanos limit) {
  auto empty = std::make_shared<std::promise<void>>();
  std::thread([&registry = system.registry(), empty] {
    registry.await_running_count_equal(0);
    empty->set_value();
  }).detach();
  return empty->get_future().wait_for(limit) == std::future_status::ready;
}

}  // namespace shoal
