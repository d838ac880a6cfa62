// The checksum of everything that travels or is stored: CRC-32C, by ISA-L.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

// Continues `previous`: crc32c(b, crc32c(a)) is the checksum of a followed by b.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace shoal
