// getaddrinfo for numeric addresses only: it never asks a name server.
#include "transport/tcp/socket.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace shoal::transport {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> numeric(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return fail(Code::kMisconfigured,
                "'" + host + "' is not a numeric address; give one like 10.0.0.7");
  }
  return Addresses(found, &::freeaddrinfo);
}

FileDescriptor open_socket(const addrinfo& address) {
  return FileDescriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set_option(const FileDescriptor& socket, int level, int name, int value) {
  ::setsockopt(socket.get(), level, name, &value, sizeof(value));
}

}  // namespace

Result<FileDescriptor> listen_at(const std::string& host, std::uint16_t port) {
  TRY(const Addresses address, numeric(host, port));
  FileDescriptor socket = open_socket(*address);
  // A port in TIME_WAIT of an earlier life is ours to take.
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), address->ai_addr, address->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return fail(Code::kMisconfigured,
                "cannot listen at " + host + ":" + std::to_string(port) + ": " +
                    std::strerror(errno) + "; give a free port of this machine");
  }
  return socket;
}

std::uint16_t port_of(const FileDescriptor& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<FileDescriptor> dial(const std::string& host, std::uint16_t port) {
  TRY(const Addresses address, numeric(host, port));
  FileDescriptor socket = open_socket(*address);
  tune(socket);
  if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return fail(
        Code::kPeerLost,
        "cannot connect to " + host + ":" + std::to_string(port) + ": " + std::strerror(errno));
  }
  return socket;
}

void tune(const FileDescriptor& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace shoal::transport
