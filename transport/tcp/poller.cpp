// A thin layer over the epoll calls; failures are ours, except an interrupted wait.
#include "transport/tcp/poller.h"

#include <cerrno>

#include "schemas/check.h"

namespace shoal::transport {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  CHECK(epoll_.is_open());
}

void Poller::add(int file, std::uint64_t number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, file, &event) == 0);
}

void Poller::set_writes(int file, std::uint64_t number, bool wanted) {
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0U);
  event.data.u64 = number;
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, file, &event) == 0);
}

void Poller::remove(int file) {
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, file, nullptr) == 0);
}

std::span<const epoll_event> Poller::wait(int timeout_ms) {
  const int count =
      ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), timeout_ms);
  CHECK(count >= 0 || errno == EINTR);
  return std::span(events_).first(count < 0 ? 0 : static_cast<std::size_t>(count));
}

}  // namespace shoal::transport
