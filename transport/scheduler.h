// The port by which rows without a thread of their own let time pass: production gives a thread, a
// simulator its virtual clock.
#pragma once

#include <functional>

#include "schemas/units.h"

namespace shoal::transport {

using Clock = std::function<Instant()>;

struct Scheduler {
  Clock now;
  // Runs the function once, `delay` from now, never inside the call. Functions run one at a time;
  // of two with the same time any may be first. What has not run when the scheduler ends never
  // runs.
  std::function<void(Nanos delay, std::function<void()> run)> defer;
};

}  // namespace shoal::transport
