// A receive timeout stands in for patience.
#include "tests/transport/raw_socket.h"

#include <array>
#include <cerrno>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <vector>

#include "tests/transport/waits.h"
#include "schemas/checksum.h"

namespace shoal::testing {

using transport::FileDescriptor;
using transport::FrameHeader;

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

RawSocket::RawSocket(FileDescriptor socket) : socket_(std::move(socket)) {
  const timeval patience{kPatience.count(), 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

RawSocket RawSocket::to(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
          0);
  return RawSocket(std::move(socket));
}

// The other side may have ended the connection: that shows when reading.
void RawSocket::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void RawSocket::write_frame(FrameHeader header, std::span<const std::byte> payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  header.checksum = crc32c(payload);
  const transport::HeaderBytes encoded = encode(header);
  std::vector<std::byte> frame(encoded.begin(), encoded.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  write(frame);
}

bool RawSocket::read_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      REQUIRE_MESSAGE((got == 0 || errno != EAGAIN), "the other side neither answers nor closes");
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::optional<FrameHeader> RawSocket::read_frame() {
  transport::HeaderBytes bytes{};
  if (!read_all(bytes)) {
    return std::nullopt;
  }
  const auto header = transport::decode_header(bytes);
  REQUIRE(header.has_value());
  std::vector<std::byte> payload(header->length);
  return read_all(payload) ? std::optional(*header) : std::nullopt;
}

bool RawSocket::is_ended_by_peer() {
  std::array<std::byte, 4096> dropped{};
  while (true) {
    const ssize_t got = ::recv(socket_.get(), dropped.data(), dropped.size(), 0);
    if (got <= 0) {
      return got == 0 || errno != EAGAIN;
    }
  }
}

void RawSocket::shut_down_writes() {
  ::shutdown(socket_.get(), SHUT_WR);
}

RawListener::RawListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(socket_.get(), 16) == 0);
  REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
}

RawSocket RawListener::accept() {
  FileDescriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(socket.is_open());
  return RawSocket(std::move(socket));
}

}  // namespace shoal::testing
