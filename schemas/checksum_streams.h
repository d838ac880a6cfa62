// CRC-32C by both units of a processor that have instructions for it, at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

// Where this beats one unit alone: AMD's with AVX-512, whose carry-less multiplication takes two
// cycles for 64 bytes. Elsewhere crc32c_streams() must not be called.
bool has_checksum_streams();

// Fewer bytes are left to others.
inline constexpr std::size_t kStreamsLeast = std::size_t{8} << 10;

// The part of a checksum that it does: the state of CRC-32C (the checksum inverted) behind `done`
// bytes, all of `bytes` but for less than 384.
struct StreamsState {
  std::uint32_t state = 0;
  std::size_t done = 0;
};

StreamsState crc32c_streams(std::span<const std::byte> bytes, std::uint32_t state);

}  // namespace shoal
