// What two endpoints say to each other over one TCP connection: frames of a checksummed header and
// a checksummed payload. The dialer asks and sends messages, the other side answers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal::transport {

inline constexpr std::uint32_t kWireVersion = 1;
// Of one payload. Small enough that fetches and channels take turns on a connection, large enough
// that a header costs nothing.
inline constexpr std::size_t kPayloadMax = std::size_t{256} << 10;

enum class FrameType : std::uint8_t {
  kHello = 1,  // dialer: payload is a Hello
  kWelcome,    // argument: bytes of messages that may be on the way
  kRefused,    // channel: a Refusal; the connection ends
  kFetch,      // dialer: argument is the key
  kCancel,     // dialer: nobody waits for the fetch any more
  kPiece,      // the next bytes of a fetched buffer; argument: its size
  kNoBuffer,   // the key is not on offer
  kMessage,    // dialer: the next bytes of a channel's message; argument: its size
  kHandled,    // the channel has run
  kUnhandled,  // the channel has no handler
};

inline constexpr std::uint8_t kLastFrameType = static_cast<std::uint8_t>(FrameType::kUnhandled);

enum class Refusal : std::uint8_t { kVersion = 1, kCluster, kTarget, kStranger };

struct FrameHeader {
  FrameType type = FrameType::kHello;
  std::uint8_t channel = 0;
  std::uint64_t sequence = 0;  // the dialer's number of the operation
  std::uint64_t argument = 0;
  std::uint32_t length = 0;  // of the payload
  std::uint32_t checksum = 0;
};

inline constexpr std::size_t kHeaderSize = 36;
using HeaderBytes = std::array<std::byte, kHeaderSize>;

HeaderBytes encode(const FrameHeader& header);
// kCorrupt: not a header, of an unknown type, or announcing more than a payload may have.
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderSize> bytes);

struct Hello {
  std::uint32_t version = kWireVersion;
  std::uint32_t cluster = 0;  // checksum of the cluster's name
  NodeId from;
  IncarnationId from_incarnation;
  NodeId to;
  IncarnationId to_incarnation;
};

std::vector<std::byte> encode(const Hello& hello);
// Of another version: nothing else is read. kCorrupt: of another size.
Result<Hello> decode_hello(std::span<const std::byte> bytes);

}  // namespace shoal::transport
