// Fields at fixed places, little-endian; the checksum of a page covers all of it.
#include "transport/file_store/layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>

#include "schemas/byte_fields.h"
#include "schemas/check.h"
#include "schemas/checksum.h"

namespace shoal::transport {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kHeaderMagic = 0x314753564B4C4853;  // "SHLKVSG1"
constexpr std::uint64_t kIndexMagic = 0x315844494B4C4853;   // "SHLKIDX1"

// Both kinds of pages begin alike.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kCrcAt = 8;
constexpr std::size_t kNumberAt = 12;
constexpr std::size_t kWriterAt = 16;
constexpr std::size_t kTtlAt = 24;
constexpr std::size_t kCreatedAt = 32;  // of a header page
constexpr std::size_t kCountAt = 28;    // of an index page, and the next three
constexpr std::size_t kPageAt = 32;
constexpr std::size_t kPreviousAt = 36;
constexpr std::size_t kFirstAt = 40;
constexpr std::size_t kEntriesAt = 64;

constexpr std::size_t kEntryBytes = 96;
constexpr std::size_t kEntryKeyAt = 0;
constexpr std::size_t kEntryParentAt = 32;
constexpr std::size_t kEntryTimeAt = 64;
constexpr std::size_t kEntryPageAt = 72;
constexpr std::size_t kEntryPagesAt = 76;
constexpr std::size_t kEntryNumberAt = 80;
constexpr std::size_t kEntryPayloadCrcAt = 84;
constexpr std::size_t kEntryKindAt = 88;
constexpr std::size_t kEntryProvenanceAt = 89;
constexpr std::size_t kEntryTtlAt = 90;
constexpr std::size_t kEntryTurnAt = 92;

static_assert(kEntriesAt + kEntriesPerPage * kEntryBytes == kPageBytes);

constexpr std::array<std::string_view, kTtlClasses> kTtlNames{"agent", "chat", "pinned"};
constexpr std::string_view kSegmentSuffix = ".kv";
constexpr std::string_view kHeartbeatSuffix = ".alive";
constexpr std::string_view kProbeSuffix = ".probe";
constexpr std::size_t kWriterDigits = 16;

// Of the page, with the field of the checksum as zero.
std::uint32_t page_crc(std::span<const std::byte> page) {
  constexpr std::array<std::byte, 4> kZero{};
  const std::uint32_t before = crc32c(page.first(kCrcAt));
  return crc32c(page.subspan(kCrcAt + kZero.size()), crc32c(kZero, before));
}

void begin_page(std::uint64_t magic, const SegmentName& name, std::span<std::byte> page) {
  CHECK(page.size() == kPageBytes);
  std::fill(page.begin(), page.end(), std::byte{0});
  put_field(page, kMagicAt, magic);
  put_field(page, kNumberAt, name.number);
  put_field(page, kWriterAt, name.writer.value);
  put_field(page, kTtlAt, name.ttl);
}

bool is_page(std::uint64_t magic, std::span<const std::byte> page) {
  return page.size() == kPageBytes && get_field<std::uint64_t>(page, kMagicAt) == magic &&
         get_field<std::uint32_t>(page, kCrcAt) == page_crc(page);
}

bool is_of(const SegmentName& name, std::span<const std::byte> page) {
  return get_field<std::uint32_t>(page, kNumberAt) == name.number &&
         get_field<std::uint64_t>(page, kWriterAt) == name.writer.value &&
         get_field<TtlClass>(page, kTtlAt) == name.ttl;
}

tl::unexpected<Error> corrupt(const SegmentName& name, const std::string& what) {
  return fail(Code::kCorrupt, "segment " + to_string(name) + ": " + what);
}

void write_entry(const IndexEntry& entry, std::span<std::byte> out) {
  put_field(out, kEntryKeyAt, entry.key.bytes);
  put_field(out, kEntryTimeAt, entry.time);
  put_field(out, kEntryPageAt, entry.page);
  put_field(out, kEntryPagesAt, entry.pages);
  put_field(out, kEntryKindAt, entry.kind);
  put_field(out, kEntryTurnAt, entry.turn);
  if (entry.kind == EntryKind::kDrop) {
    put_field(out, kEntryParentAt, entry.dropped.writer.value);
    put_field(out, kEntryNumberAt, entry.dropped.number);
    put_field(out, kEntryTtlAt, entry.dropped.ttl);
    return;
  }
  put_field(out, kEntryParentAt, entry.parent.bytes);
  put_field(out, kEntryNumberAt, entry.number);
  put_field(out, kEntryPayloadCrcAt, entry.crc);
  put_field(out, kEntryProvenanceAt, entry.provenance);
}

std::optional<IndexEntry> read_entry(std::span<const std::byte> in) {
  const auto kind = get_field<std::uint8_t>(in, kEntryKindAt);
  const auto provenance = get_field<std::uint8_t>(in, kEntryProvenanceAt);
  const auto ttl = get_field<std::uint8_t>(in, kEntryTtlAt);
  if (kind < 1 || kind > 3 || provenance >= kProvenances || ttl >= kTtlClasses) {
    return std::nullopt;
  }
  IndexEntry entry;
  entry.kind = static_cast<EntryKind>(kind);
  entry.key.bytes = get_field<decltype(entry.key.bytes)>(in, kEntryKeyAt);
  entry.time = get_field<WallMillis>(in, kEntryTimeAt);
  entry.page = get_field<std::uint32_t>(in, kEntryPageAt);
  entry.pages = get_field<std::uint32_t>(in, kEntryPagesAt);
  entry.turn = get_field<std::uint32_t>(in, kEntryTurnAt);
  const auto number = get_field<std::uint32_t>(in, kEntryNumberAt);
  if (entry.kind == EntryKind::kDrop) {
    const IncarnationId writer{get_field<std::uint64_t>(in, kEntryParentAt)};
    entry.dropped = {writer, static_cast<TtlClass>(ttl), number};
    return entry;
  }
  entry.parent.bytes = get_field<decltype(entry.parent.bytes)>(in, kEntryParentAt);
  entry.number = number;
  entry.crc = get_field<std::uint32_t>(in, kEntryPayloadCrcAt);
  entry.provenance = static_cast<Provenance>(provenance);
  return entry;
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, kWriterDigits + 1> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

template <class T>
std::optional<T> parse_number(std::string_view digits, int base) {
  T value{};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<IncarnationId> parse_writer(std::string_view file, std::string_view suffix) {
  if (file.size() != kWriterDigits + suffix.size() || !file.ends_with(suffix)) {
    return std::nullopt;
  }
  const auto writer = parse_number<std::uint64_t>(file.substr(0, kWriterDigits), 16);
  return writer ? std::optional(IncarnationId{*writer}) : std::nullopt;
}

}  // namespace

std::string_view name_of(TtlClass ttl) {
  return kTtlNames.at(static_cast<std::size_t>(ttl));
}

std::string to_string(const SegmentName& name) {
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "-%06u", name.number);
  return hexadecimal(name.writer.value) + "-" + std::string(name_of(name.ttl)) + number.data() +
         std::string(kSegmentSuffix);
}

std::optional<SegmentName> parse_segment_name(std::string_view file) {
  for (int ttl = 0; ttl < kTtlClasses; ++ttl) {
    const std::string middle = "-" + std::string(kTtlNames.at(static_cast<std::size_t>(ttl))) + "-";
    if (file.size() <= kWriterDigits + middle.size() + kSegmentSuffix.size() ||
        !file.substr(kWriterDigits).starts_with(middle) || !file.ends_with(kSegmentSuffix)) {
      continue;
    }
    const std::string_view digits =
        file.substr(kWriterDigits + middle.size(),
                    file.size() - kWriterDigits - middle.size() - kSegmentSuffix.size());
    const auto writer = parse_number<std::uint64_t>(file.substr(0, kWriterDigits), 16);
    const auto number = parse_number<std::uint32_t>(digits, 10);
    if (writer && number) {
      return SegmentName{IncarnationId{*writer}, static_cast<TtlClass>(ttl), *number};
    }
  }
  return std::nullopt;
}

std::string heartbeat_name(IncarnationId writer) {
  return hexadecimal(writer.value) + std::string(kHeartbeatSuffix);
}

std::optional<IncarnationId> parse_heartbeat_name(std::string_view file) {
  return parse_writer(file, kHeartbeatSuffix);
}

std::string probe_name(IncarnationId writer) {
  return hexadecimal(writer.value) + std::string(kProbeSuffix);
}

std::optional<IncarnationId> parse_probe_name(std::string_view file) {
  return parse_writer(file, kProbeSuffix);
}

void write_header_page(const SegmentName& name, WallMillis created, std::span<std::byte> page) {
  begin_page(kHeaderMagic, name, page);
  put_field(page, kCreatedAt, created);
  put_field(page, kCrcAt, page_crc(page));
}

Result<std::optional<WallMillis>> read_header_page(std::span<const std::byte> page,
                                                   const SegmentName& name) {
  if (!is_page(kHeaderMagic, page)) {
    return std::nullopt;
  }
  if (!is_of(name, page)) {
    const SegmentName other{IncarnationId{get_field<std::uint64_t>(page, kWriterAt)},
                            get_field<TtlClass>(page, kTtlAt),
                            get_field<std::uint32_t>(page, kNumberAt)};
    const bool is_name = static_cast<int>(other.ttl) < kTtlClasses;
    return corrupt(
        name, "it is another segment under this name" + (is_name ? ", " + to_string(other) : ""));
  }
  return get_field<WallMillis>(page, kCreatedAt);
}

void write_index_page(const IndexPage& index, const SegmentName& name, std::span<std::byte> page) {
  CHECK(index.entries.size() <= kEntriesPerPage);
  begin_page(kIndexMagic, name, page);
  put_field(page, kCountAt, static_cast<std::uint32_t>(index.entries.size()));
  put_field(page, kPageAt, index.page);
  put_field(page, kPreviousAt, index.previous);
  put_field(page, kFirstAt, index.first);
  for (std::size_t i = 0; i < index.entries.size(); ++i) {
    write_entry(index.entries[i], page.subspan(kEntriesAt + i * kEntryBytes, kEntryBytes));
  }
  put_field(page, kCrcAt, page_crc(page));
}

bool begins_as_index_page(std::span<const std::byte> page) {
  return page.size() == kPageBytes && get_field<std::uint64_t>(page, kMagicAt) == kIndexMagic;
}

Result<IndexPage> read_index_page(std::span<const std::byte> page,
                                  const SegmentName& name,
                                  std::uint32_t at) {
  if (!is_page(kIndexMagic, page) || !is_of(name, page)) {
    return corrupt(name, "not an index page of it");
  }
  IndexPage index{get_field<std::uint32_t>(page, kPageAt),
                  get_field<std::uint32_t>(page, kPreviousAt),
                  get_field<std::uint64_t>(page, kFirstAt),
                  {}};
  const auto count = get_field<std::uint32_t>(page, kCountAt);
  if (index.page != at || index.previous >= at || count > kEntriesPerPage) {
    return corrupt(name, "an index page is out of place");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = read_entry(page.subspan(kEntriesAt + i * kEntryBytes, kEntryBytes));
    if (!entry) {
      return corrupt(name, "an index entry is damaged");
    }
    index.entries.push_back(*entry);
  }
  return index;
}

}  // namespace shoal::transport
