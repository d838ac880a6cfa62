// Open files of segments that are read, the least recently used closed beyond a ceiling. From any
// thread.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "transport/file_store/file_io.h"
#include "transport/file_store/layout.h"

namespace shoal::transport {

class FileTable {
 public:
  explicit FileTable(FileIo& io) : io_(io) {}

  Result<FileIo::FilePtr> open(const SegmentName& name);
  void close(const SegmentName& name);

 private:
  using Order = std::list<std::pair<SegmentName, FileIo::FilePtr>>;

  FileIo& io_;
  std::mutex mutex_;
  Order order_;  // last used first
  std::map<SegmentName, Order::iterator> files_;
};

}  // namespace shoal::transport
