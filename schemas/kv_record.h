// One block of KV as it is stored and moved: a header of kKvHeaderBytes, the block's bytes as the
// device has them, zeros up to a multiple of kKvRecordAlign (V4.1-Flash: 768 + 113,920 bytes = 28
// pages). schemas/README.md has it byte by byte.
//
// A record proves itself: whoever reads one checks it against the key it asked for, and what does
// not fit is a miss, never an answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/block_key.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal {

inline constexpr std::int64_t kKvHeaderBytes = 768;
inline constexpr std::int64_t kKvRecordAlign = 4'096;
// A larger payload is damage.
inline constexpr std::int64_t kKvPayloadMax = std::int64_t{64} << 20;

// How it was computed: with whole windows, or behind a bounded replay (or behind a bounded block).
enum class Provenance : std::uint8_t { kExact, kBounded };
inline constexpr int kProvenances = 2;

// How long it is worth keeping after its last use.
enum class TtlClass : std::uint8_t { kAgent, kChat, kPinned };
inline constexpr int kTtlClasses = 3;

// What a header says.
struct KvBlock {
  BlockKey key;
  BlockKey parent;
  std::uint32_t number = 0;   // 0: the first block of its sequence
  std::uint64_t layout = 0;   // digest of the layout in words
  std::uint64_t numeric = 0;  // digest of the device's numeric id: equal ones give equal bits
  IncarnationId writer;
  Provenance provenance = Provenance::kExact;
  TtlClass ttl = TtlClass::kChat;
  std::uint32_t payload_bytes = 0;
  std::uint32_t payload_crc = 0;  // CRC-32C
  std::array<TokenId, kBlockTokens> tokens{};
};

constexpr std::int64_t kv_record_bytes(std::int64_t payload) {
  return (kKvHeaderBytes + payload + kKvRecordAlign - 1) / kKvRecordAlign * kKvRecordAlign;
}

// The whole record. Sets the payload's size and checksum in `block`.
std::vector<std::byte> make_kv_record(KvBlock& block, std::span<const std::byte> payload);

// kCorrupt: not a header, or a damaged one.
Result<KvBlock> read_kv_header(std::span<const std::byte> record);

struct KvRecord {
  KvBlock block;
  std::span<const std::byte> payload;  // inside the record
};

// What a reader wants of a record.
struct KvWanted {
  BlockKey key;
  BlockKey parent;
  std::uint64_t layout = 0;
};

// kCorrupt says what is damaged or differs. `record` may be any bytes.
Result<KvRecord> read_kv_record(std::span<const std::byte> record, const KvWanted& wanted);

}  // namespace shoal
