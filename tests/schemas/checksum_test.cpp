// The checksum of everything that is stored: one value, whatever computes it.
#include "schemas/checksum.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <string_view>
#include <vector>

#include "schemas/checksum_streams.h"

namespace shoal {
namespace {

std::vector<std::byte> noise(std::size_t bytes) {
  std::vector<std::byte> noise(bytes);
  std::uint64_t state = 7;
  for (std::byte& byte : noise) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return noise;
}

// Bit by bit, as RFC 3720 has it.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
    }
  }
  return ~crc;
}

TEST_CASE("checksum: it is CRC-32C") {
  CHECK(crc32c(std::as_bytes(std::span(std::string_view("123456789")))) == 0xE3069283);
  for (const std::size_t size : {0, 1, 383, 8'191, 8'192, 8'447, 113'920}) {
    CAPTURE(size);
    const std::vector<std::byte> bytes = noise(size);
    CHECK(crc32c(bytes) == by_definition(bytes));
  }
}

TEST_CASE("checksum: all ways to compute it agree, at any length, place and beginning") {
  const std::vector<std::byte> all = noise(200'000);
  for (std::size_t i = 0; i < 2'000; ++i) {
    const std::size_t size = i < 1'000 ? kStreamsLeast + i : i * 97;
    const auto bytes = std::span(all).subspan(i % 67, size);
    const auto before = static_cast<std::uint32_t>(i * 2'654'435'761);
    CAPTURE(size);
    REQUIRE(crc32c(bytes, before) == crc32c_by_library(bytes, before));
  }
}

TEST_CASE("checksum: of two parts, one after the other, it is that of the whole") {
  const std::vector<std::byte> all = noise(113'920);
  for (const std::size_t first : {0, 1, 4'096, 50'000, 113'919}) {
    CAPTURE(first);
    const std::uint32_t head = crc32c(std::span(all).first(first));
    CHECK(crc32c(std::span(all).subspan(first), head) == crc32c(all));
  }
}

}  // namespace
}  // namespace shoal
