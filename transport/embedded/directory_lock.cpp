// flock on DIRECTORY/cluster.lock; the holder's process id is its content.
#include "transport/embedded/directory_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace shoal::transport {
namespace {

std::string holder_of(int file) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  return got > 0 ? "process " + std::string(text.data(), static_cast<std::size_t>(got))
                 : "another process";
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::filesystem::path path = directory / "cluster.lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    return fail(Code::kMisconfigured,
                "cannot write in state directory " + directory.string() + ": " +
                    std::strerror(errno) + "; give a directory that this user may write");
  }
  const std::string self = std::to_string(::getpid());
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::kMisconfigured,
                "state directory " + directory.string() + " is in use by " + holder_of(file.get()) +
                    ", so process " + self + " cannot have it; give each its own");
  }
  // Only for the message above: the lock holds whether or not this is written.
  if (::ftruncate(file.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), self.data(), self.size(), 0);
  }
  return DirectoryLock(directory, std::move(file));
}

}  // namespace shoal::transport
