// Header fields at fixed places, little-endian; its own checksum covers all of them.
#include "schemas/kv_record.h"

#include <algorithm>
#include <bit>
#include <string>

#include "schemas/byte_fields.h"
#include "schemas/check.h"
#include "schemas/checksum.h"

namespace shoal {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMagic = 0x314B42564B4C4853;  // "SHLKVBK1"
constexpr std::uint32_t kVersion = 1;

constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kHeaderCrcAt = 12;
constexpr std::size_t kKeyAt = 16;
constexpr std::size_t kParentAt = 48;
constexpr std::size_t kLayoutAt = 80;
constexpr std::size_t kNumericAt = 88;
constexpr std::size_t kWriterAt = 96;
constexpr std::size_t kPayloadBytesAt = 104;
constexpr std::size_t kPayloadCrcAt = 108;
constexpr std::size_t kNumberAt = 112;
constexpr std::size_t kProvenanceAt = 116;
constexpr std::size_t kTtlAt = 117;
constexpr std::size_t kTokensAt = 256;

static_assert(kTokensAt + kBlockTokens * sizeof(TokenId) == kKvHeaderBytes);

using Header = std::array<std::byte, kKvHeaderBytes>;

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(Code::kCorrupt, "KV record: " + what);
}

std::uint32_t header_crc(std::span<const std::byte> header) {
  Header copy;
  std::copy_n(header.begin(), copy.size(), copy.begin());
  put_field(copy, kHeaderCrcAt, std::uint32_t{0});
  return record_crc32c(copy);
}

void write_header(const KvBlock& block, std::span<std::byte> out) {
  put_field(out, kMagicAt, kMagic);
  put_field(out, kVersionAt, kVersion);
  put_field(out, kKeyAt, block.key.bytes);
  put_field(out, kParentAt, block.parent.bytes);
  put_field(out, kLayoutAt, block.layout);
  put_field(out, kNumericAt, block.numeric);
  put_field(out, kWriterAt, block.writer.value);
  put_field(out, kPayloadBytesAt, block.payload_bytes);
  put_field(out, kPayloadCrcAt, block.payload_crc);
  put_field(out, kNumberAt, block.number);
  put_field(out, kProvenanceAt, block.provenance);
  put_field(out, kTtlAt, block.ttl);
  put_field(out, kTokensAt, block.tokens);
  put_field(out, kHeaderCrcAt, header_crc(out));
}

}  // namespace

std::vector<std::byte> make_kv_record(KvBlock& block, std::span<const std::byte> payload) {
  CHECK(static_cast<std::int64_t>(payload.size()) <= kKvPayloadMax);
  block.payload_bytes = static_cast<std::uint32_t>(payload.size());
  block.payload_crc = record_crc32c(payload);
  std::vector<std::byte> record(
      static_cast<std::size_t>(kv_record_bytes(static_cast<std::int64_t>(payload.size()))));
  write_header(block, record);
  std::copy(payload.begin(), payload.end(), record.begin() + kKvHeaderBytes);
  return record;
}

Result<KvBlock> read_kv_header(std::span<const std::byte> record) {
  if (static_cast<std::int64_t>(record.size()) < kKvHeaderBytes) {
    return corrupt("shorter than its header");
  }
  const auto header = record.first(kKvHeaderBytes);
  if (get_field<std::uint64_t>(header, kMagicAt) != kMagic) {
    return corrupt("it does not begin like one");
  }
  if (const auto version = get_field<std::uint32_t>(header, kVersionAt); version != kVersion) {
    return corrupt("version " + std::to_string(version) + ", this program reads " +
                   std::to_string(kVersion));
  }
  if (get_field<std::uint32_t>(header, kHeaderCrcAt) != header_crc(header)) {
    return corrupt("the checksum of its header differs");
  }
  KvBlock block;
  block.key.bytes = get_field<decltype(block.key.bytes)>(header, kKeyAt);
  block.parent.bytes = get_field<decltype(block.parent.bytes)>(header, kParentAt);
  block.layout = get_field<std::uint64_t>(header, kLayoutAt);
  block.numeric = get_field<std::uint64_t>(header, kNumericAt);
  block.writer = IncarnationId{get_field<std::uint64_t>(header, kWriterAt)};
  block.payload_bytes = get_field<std::uint32_t>(header, kPayloadBytesAt);
  block.payload_crc = get_field<std::uint32_t>(header, kPayloadCrcAt);
  block.number = get_field<std::uint32_t>(header, kNumberAt);
  const auto provenance = get_field<std::uint8_t>(header, kProvenanceAt);
  const auto ttl = get_field<std::uint8_t>(header, kTtlAt);
  if (provenance >= kProvenances || ttl >= kTtlClasses || block.payload_bytes > kKvPayloadMax) {
    return corrupt("a field of its header is out of range");
  }
  block.provenance = static_cast<Provenance>(provenance);
  block.ttl = static_cast<TtlClass>(ttl);
  block.tokens = get_field<decltype(block.tokens)>(header, kTokensAt);
  return block;
}

Result<KvRecord> read_kv_record(std::span<const std::byte> record, const KvWanted& wanted) {
  TRY(KvBlock block, read_kv_header(record));
  if (block.key != wanted.key || block.parent != wanted.parent) {
    return corrupt("it is of another sequence");
  }
  if (block.layout != wanted.layout) {
    return corrupt("it is of another layout");
  }
  if (next_key(block.parent, block.tokens) != block.key) {
    return corrupt("its tokens are not those of its key");
  }
  if (static_cast<std::int64_t>(record.size()) != kv_record_bytes(block.payload_bytes)) {
    return corrupt("it has another length");
  }
  const auto payload = record.subspan(kKvHeaderBytes, block.payload_bytes);
  const auto padding = record.subspan(kKvHeaderBytes + block.payload_bytes);
  if (record_crc32c(payload) != block.payload_crc ||
      std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; })) {
    return corrupt("its checksum differs");
  }
  return KvRecord{block, payload};
}

}  // namespace shoal
