// By flock(2): the lock goes with the process, whatever ends that.
#include "tools/log_lock.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <unistd.h>

namespace shoal::tools {

LogLock::LogLock(int file) : held_(nullptr, [file](void*) { ::close(file); }) {}

Result<LogLock> LogLock::take(const std::filesystem::path& file) {
  constexpr mode_t kAllMayRead = 0666;  // less what the umask says
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kAllMayRead);
  if (opened < 0) {
    return fail(Code::kMisconfigured,
                file.string() + ": cannot be written: " + std::strerror(errno) +
                    "; name another file with --log");
  }
  LogLock lock(opened);
  // Of what is no file, as /dev/null, anybody may write at any time.
  if (std::filesystem::is_regular_file(file) && ::flock(opened, LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::kMisconfigured,
                file.string() +
                    ": another run writes it; wait for its end, or name another file with --log");
  }
  return lock;
}

}  // namespace shoal::tools
