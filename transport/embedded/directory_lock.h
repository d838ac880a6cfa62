// One process a state directory: a locked file in it, which names its holder.
#pragma once

#include <filesystem>

#include "schemas/result.h"
#include "transport/file_descriptor.h"

namespace shoal::transport {

class DirectoryLock {
 public:
  // Creates the directory if need be. The lock ends with this object or the process.
  static Result<DirectoryLock> take(const std::filesystem::path& directory);

  const std::filesystem::path& directory() const { return directory_; }

 private:
  DirectoryLock(std::filesystem::path directory, FileDescriptor file)
      : directory_(std::move(directory)),
        file_(std::move(file)) {}

  std::filesystem::path directory_;
  FileDescriptor file_;
};

}  // namespace shoal::transport
