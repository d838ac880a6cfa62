// What a block store of one process is opened with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "schemas/ids.h"
#include "transport/block_store.h"
#include "transport/scheduler.h"

namespace shoal::transport {

using WallClock = std::function<WallMillis()>;

// How a real directory is read and written.
enum class FileWay : std::uint8_t {
  kAny,      // io_uring where the system allows it, else threads
  kUring,    // io_uring, or the store does not open
  kThreads,  // pread and pwrite
};

struct BlockStoreParams {
  BlockStoreLimits limits;
  BlockPolicy policy;
  Clock now;
  WallClock wall;

  // Row `file` alone.
  std::filesystem::path directory;  // created if need be
  IncarnationId writer;             // no other process ever had it
  FileWay way = FileWay::kAny;
  bool direct = true;  // past the page cache where the file system allows it
  int readers = 4;     // threads that read; two more write and tidy
};

}  // namespace shoal::transport
