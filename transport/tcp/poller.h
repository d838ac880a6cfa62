// epoll, level triggered, with a number of ours per socket.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <sys/epoll.h>

#include "transport/file_descriptor.h"

namespace shoal::transport {

class Poller {
 public:
  Poller();

  void add(int file, std::uint64_t number);
  void set_writes(int file, std::uint64_t number, bool wanted);
  // Closing a file removes it too.
  void remove(int file);

  // The numbers of what is ready, valid until the next call; -1 waits without end.
  std::span<const epoll_event> wait(int timeout_ms);

 private:
  FileDescriptor epoll_;
  std::array<epoll_event, 64> events_{};
};

}  // namespace shoal::transport
