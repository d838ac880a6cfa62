// A log that one run writes at a time, and that can be written: known before the run.
#pragma once

#include <filesystem>
#include <memory>

#include "schemas/result.h"

namespace shoal::tools {

// Held until it is destroyed, or the process ends.
class LogLock {
 public:
  // Makes the file if need be, and leaves what is in it. kMisconfigured: it cannot be written, or
  // another run writes it.
  static Result<LogLock> take(const std::filesystem::path& file);

 private:
  explicit LogLock(int file);

  std::shared_ptr<void> held_;
};

}  // namespace shoal::tools
