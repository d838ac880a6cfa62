// A real directory whose reads and writes go through io_uring: many at the same time from one
// thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "transport/file_store/posix_io.h"

namespace shoal::transport {

// kUnavailable: this system has no io_uring, or forbids it (many containers do).
Result<std::shared_ptr<FileIo>> open_uring_io(std::filesystem::path directory,
                                              std::string unique,
                                              bool direct);

}  // namespace shoal::transport
