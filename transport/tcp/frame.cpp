// Layout, little endian. Header: magic u32, type u8, channel u8, zero u16, sequence u64, argument
// u64, length u32, payload's crc32c u32, crc32c u32 of the header before it.
#include "transport/tcp/frame.h"

#include <bit>
#include <cstring>

#include "schemas/checksum.h"

namespace shoal::transport {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kMagic = 0x314c4853;  // "SHL1"
constexpr std::size_t kHelloSize = 32;

// Puts and gets fields one after another.
template <class T>
void put(std::byte*& at, T value) {
  std::memcpy(at, &value, sizeof(value));
  at += sizeof(value);
}

template <class T>
T get(const std::byte*& at) {
  T value{};
  std::memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

}  // namespace

HeaderBytes encode(const FrameHeader& header) {
  HeaderBytes bytes{};
  std::byte* at = bytes.data();
  put(at, kMagic);
  put(at, header.type);
  put(at, header.channel);
  put(at, std::uint16_t{0});
  put(at, header.sequence);
  put(at, header.argument);
  put(at, header.length);
  put(at, header.checksum);
  put(at, crc32c(std::span(bytes).first(kHeaderSize - 4)));
  return bytes;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderSize> bytes) {
  const std::byte* at = bytes.data();
  if (get<std::uint32_t>(at) != kMagic) {
    return fail(Code::kCorrupt, "what arrived is not a frame");
  }
  const auto type = get<std::uint8_t>(at);
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.channel = get<std::uint8_t>(at);
  get<std::uint16_t>(at);
  header.sequence = get<std::uint64_t>(at);
  header.argument = get<std::uint64_t>(at);
  header.length = get<std::uint32_t>(at);
  header.checksum = get<std::uint32_t>(at);
  if (get<std::uint32_t>(at) != crc32c(bytes.first(kHeaderSize - 4))) {
    return fail(Code::kCorrupt, "a frame's header differs from its checksum");
  }
  if (type == 0 || type > kLastFrameType) {
    return fail(Code::kCorrupt, "a frame is of unknown type " + std::to_string(type));
  }
  if (header.length > kPayloadMax) {
    return fail(Code::kCorrupt,
                "a frame announces " + std::to_string(header.length) + " bytes, over " +
                    std::to_string(kPayloadMax));
  }
  return header;
}

std::vector<std::byte> encode(const Hello& hello) {
  std::vector<std::byte> bytes(kHelloSize);
  std::byte* at = bytes.data();
  put(at, hello.version);
  put(at, hello.cluster);
  put(at, hello.from.value);
  put(at, hello.to.value);
  put(at, hello.from_incarnation.value);
  put(at, hello.to_incarnation.value);
  return bytes;
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
  const auto wrong_size = [&bytes] {
    return fail(Code::kCorrupt, "a hello has " + std::to_string(bytes.size()) + " bytes");
  };
  if (bytes.size() < sizeof(std::uint32_t)) {
    return wrong_size();
  }
  const std::byte* at = bytes.data();
  Hello hello;
  hello.version = get<std::uint32_t>(at);
  if (hello.version != kWireVersion) {
    return hello;
  }
  if (bytes.size() != kHelloSize) {
    return wrong_size();
  }
  hello.cluster = get<std::uint32_t>(at);
  hello.from.value = get<std::uint32_t>(at);
  hello.to.value = get<std::uint32_t>(at);
  hello.from_incarnation.value = get<std::uint64_t>(at);
  hello.to_incarnation.value = get<std::uint64_t>(at);
  return hello;
}

}  // namespace shoal::transport
