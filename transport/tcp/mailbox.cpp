// An eventfd, written when work comes into an empty box.
#include "transport/tcp/mailbox.h"

#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "schemas/check.h"

namespace shoal::transport {

Mailbox::Mailbox() : wake_up_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  CHECK(wake_up_.is_open());
}

bool Mailbox::post(Work& work) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    return false;
  }
  if (work_.empty()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_up_.get(), &one, sizeof(one));
  }
  work_.push_back(std::move(work));
  return true;
}

std::vector<Mailbox::Work> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_up_.get(), &count, sizeof(count));
  return std::exchange(work_, {});
}

std::vector<Mailbox::Work> Mailbox::take_or_close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = work_.empty();
  return std::exchange(work_, {});
}

}  // namespace shoal::transport
