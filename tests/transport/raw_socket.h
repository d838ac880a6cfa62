// Blocking loopback sockets of a test that speaks, or does not speak, for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/file_descriptor.h"
#include "transport/tcp/frame.h"

namespace shoal::testing {

class RawSocket {
 public:
  explicit RawSocket(transport::FileDescriptor socket);
  // Connected to a port of this machine.
  static RawSocket to(std::uint16_t port);

  void write(std::span<const std::byte> bytes);
  void write_frame(transport::FrameHeader header, std::span<const std::byte> payload = {});
  // Nothing: the other side closed or reset the connection. Fails the test if neither comes.
  std::optional<transport::FrameHeader> read_frame();
  // Reads and drops until the other side ends the connection; false: patience ended before.
  bool is_ended_by_peer();
  void shut_down_writes();

 private:
  bool read_all(std::span<std::byte> bytes);

  transport::FileDescriptor socket_;
};

// Connections come in whether or not anybody accepts them.
class RawListener {
 public:
  RawListener();

  std::uint16_t port() const { return port_; }

  RawSocket accept();

 private:
  transport::FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

}  // namespace shoal::testing
