// A list by last use and a map into it.
#include "transport/file_store/file_table.h"

namespace shoal::transport {
namespace {

// A process may have 1,024 files open on many systems.
constexpr std::size_t kOpenMost = 128;

}  // namespace

Result<FileIo::FilePtr> FileTable::open(const SegmentName& name) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(name); found != files_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
  }
  TRY(FileIo::FilePtr file, io_.open(to_string(name)));
  const std::lock_guard lock(mutex_);
  if (!files_.contains(name)) {
    order_.emplace_front(name, file);
    files_.emplace(name, order_.begin());
    if (order_.size() > kOpenMost) {
      files_.erase(order_.back().first);
      order_.pop_back();
    }
  }
  return file;
}

void FileTable::close(const SegmentName& name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = files_.find(name); found != files_.end()) {
    order_.erase(found->second);
    files_.erase(found);
  }
}

}  // namespace shoal::transport
