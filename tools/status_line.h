// Lines that say how far long work is, for logs: progress bars are for terminals.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "schemas/units.h"

namespace shoal::tools {

class StatusLine {
 public:
  // Of work counted in `unit`, of which `done` was done before `now`.
  StatusLine(std::string unit,
             std::int64_t done,
             Instant now,
             Nanos every = std::chrono::seconds(30));

  // "7 of 20 seeds, 0.2 seeds/s"; none: the last line is not old enough.
  std::optional<std::string> update(std::int64_t done, std::int64_t total, Instant now);

 private:
  std::string unit_;
  std::int64_t first_;
  Instant began_;
  Instant said_;
  Nanos every_;
};

}  // namespace shoal::tools
