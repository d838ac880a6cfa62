// What a block store of one process is opened with.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

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

// The file system on which a directory was when it was opened last; 0: it was not yet.
using FileSystemId = std::atomic<std::uint64_t>;

// Where in a Ceph cluster a store is.
struct RadosPlace {
  std::filesystem::path conf;  // ceph.conf; empty: where Ceph looks for it
  std::string user = "client.admin";
  std::string pool = "shoal";
  std::string store = "kv";  // one of several in the pool: its namespace
};

struct BlockStoreParams {
  BlockStoreLimits limits;
  BlockPolicy policy;
  Clock now;
  WallClock wall;

  // Rows `file` and `rados`.
  IncarnationId writer;  // no other process ever had it
  int readers = 4;       // threads that read; three more stage, write and tidy

  // Row `file` alone.
  std::filesystem::path directory;  // created if need be
  FileWay way = FileWay::kAny;
  bool direct = true;  // past the page cache where the file system allows it
  // Over all openings of a directory. A store that is not there is made on no other file system
  // than before: what is seen may be the place of a mount that went away. Null: anywhere.
  std::shared_ptr<FileSystemId> made_on;

  // Row `rados` alone.
  RadosPlace rados;
};

}  // namespace shoal::transport
