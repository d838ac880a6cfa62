// Non-blocking TCP sockets at numeric addresses.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/result.h"
#include "transport/file_descriptor.h"

namespace shoal::transport {

// kMisconfigured: the address is not numeric or not this machine's, or the port is taken.
Result<FileDescriptor> listen_at(const std::string& host, std::uint16_t port);
std::uint16_t port_of(const FileDescriptor& listener);

// Begins to connect; the first write tells whether it succeeded.
Result<FileDescriptor> dial(const std::string& host, std::uint16_t port);

// Small frames leave at once; a vanished machine is noticed though nothing is sent.
void tune(const FileDescriptor& socket);

}  // namespace shoal::transport
