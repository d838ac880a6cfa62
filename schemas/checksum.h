// The checksum of everything that travels or is stored: CRC-32C.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

// Continues `previous`: crc32c(b, crc32c(a)) is the checksum of a followed by b.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

// The same by ISA-L alone, as where the processor has nothing faster.
std::uint32_t crc32c_by_library(std::span<const std::byte> bytes, std::uint32_t previous = 0);

// By the processor's own counter of time; 0 always where there is none. For measurements alone.
std::int64_t processor_ticks();

// What checksums of KV records took in this process so far.
struct ChecksumWork {
  std::int64_t bytes = 0;
  std::int64_t ticks = 0;
};

// Of a record: counts, too. From any thread.
std::uint32_t record_crc32c(std::span<const std::byte> bytes);
ChecksumWork checksum_work();

}  // namespace shoal
