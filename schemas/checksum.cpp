// CRC-32C through ISA-L, in pieces that its int length can hold.
#include "schemas/checksum.h"

#include <algorithm>
#include <isa-l/crc.h>

namespace shoal {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  // ISA-L's table takes a pointer to non-const bytes that it does not write.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  std::uint32_t crc = ~previous;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    crc = crc32_iscsi(data + at, static_cast<int>(std::min(kPiece, bytes.size() - at)), crc);
  }
  return ~crc;
}

}  // namespace shoal
