// Header, bounds and digest of a sequence's image.
#include "kernels/kv_image.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace shoal::kernels {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMagic = 0x31564B4C414F4853;  // "SHOALKV1"
constexpr std::int64_t kVersion = 2;
constexpr std::size_t kDigestAt = 16;
constexpr std::size_t kLengthAt = 24;
constexpr std::size_t kFixedBytes = 32;

// Every step is a bijection of the state and of the word, so one damaged word always shows.
std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t state = bytes.size();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    state = std::rotl(state ^ word, 29) * 0x9E3779B97F4A7C15ULL;
  }
  return state ^ (state >> 32);
}

template <class T>
void put(std::span<std::byte> image, std::size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}

tl::unexpected<Error> differs(const std::string& field,
                              std::string_view found,
                              std::string_view wanted) {
  return corrupt_image(field + " is '" + std::string(found) + "', this device's is '" +
                       std::string(wanted) + "'");
}

}  // namespace

tl::unexpected<Error> corrupt_image(const std::string& what) {
  return fail(Code::kCorrupt, "KV image: " + what + "; discard it and compute the sequence anew");
}

KvImageWriter::KvImageWriter(const KvImageFit& fit, Position tokens) {
  integer(static_cast<std::int64_t>(kMagic));
  integer(kVersion);
  image_.resize(kFixedBytes);  // digest and length follow in finish()
  integer(tokens);
  text(fit.numeric_id);
  text(fit.layout);
}

void KvImageWriter::bytes(std::span<const std::byte> data) {
  image_.insert(image_.end(), data.begin(), data.end());
}

void KvImageWriter::integer(std::int64_t value) {
  bytes(std::as_bytes(std::span(&value, 1)));
}

void KvImageWriter::text(std::string_view value) {
  integer(static_cast<std::int64_t>(value.size()));
  bytes(std::as_bytes(std::span(value)));
}

std::vector<std::byte> KvImageWriter::finish() && {
  seal_kv_image(image_);
  return std::move(image_);
}

void seal_kv_image(std::span<std::byte> image) {
  put(image, kLengthAt, static_cast<std::int64_t>(image.size()));
  put(image, kDigestAt, digest(image.subspan(kLengthAt)));
}

Result<KvImageReader> KvImageReader::open(std::span<const std::byte> image, const KvImageFit& fit) {
  KvImageReader reader(image);
  TRY(const std::int64_t magic, reader.integer());
  TRY(const std::int64_t version, reader.integer());
  TRY(const std::int64_t found_digest, reader.integer());
  TRY(const std::int64_t length, reader.integer());
  if (static_cast<std::uint64_t>(magic) != kMagic) {
    return corrupt_image("it does not begin like one");
  }
  if (version != kVersion) {
    return corrupt_image("version " + std::to_string(version) + ", this device reads " +
                         std::to_string(kVersion));
  }
  if (length != static_cast<std::int64_t>(image.size())) {
    return corrupt_image(std::to_string(image.size()) + " bytes arrived of " +
                         std::to_string(length));
  }
  if (static_cast<std::uint64_t>(found_digest) != digest(image.subspan(kLengthAt))) {
    return corrupt_image("its digest differs");
  }
  TRY(reader.tokens_, reader.integer());
  TRY(const std::string_view numeric_id, reader.text());
  TRY(const std::string_view layout, reader.text());
  if (numeric_id != fit.numeric_id) {
    return differs("numeric id", numeric_id, fit.numeric_id);
  }
  if (layout != fit.layout) {
    return differs("layout", layout, fit.layout);
  }
  return reader;
}

Result<std::span<const std::byte>> KvImageReader::bytes(std::int64_t size) {
  if (size < 0 || static_cast<std::uint64_t>(size) > left_.size()) {
    return corrupt_image(std::to_string(size) + " bytes wanted where " +
                         std::to_string(left_.size()) + " are left");
  }
  const auto taken = left_.first(static_cast<std::size_t>(size));
  left_ = left_.subspan(taken.size());
  return taken;
}

Result<std::int64_t> KvImageReader::integer() {
  std::int64_t value = 0;
  TRY(const auto field, bytes(sizeof value));
  std::memcpy(&value, field.data(), sizeof value);
  return value;
}

Result<std::string_view> KvImageReader::text() {
  TRY(const std::int64_t size, integer());
  TRY(const auto field, bytes(size));
  return std::string_view(reinterpret_cast<const char*>(field.data()), field.size());
}

Result<void> KvImageReader::end() const {
  if (!left_.empty()) {
    return corrupt_image(std::to_string(left_.size()) + " bytes too many");
  }
  return {};
}

Result<void> check_block_table(const KvArena& arena,
                               std::span<const BlockId> blocks,
                               Position tokens) {
  if (static_cast<Position>(blocks.size()) * kBlockTokens < tokens) {
    return fail(Code::kInvalid,
                "block table of " + std::to_string(blocks.size()) +
                    " blocks ends before position " + std::to_string(tokens));
  }
  if (std::any_of(
          blocks.begin(), blocks.end(), [&](BlockId b) { return b.value >= arena.blocks(); })) {
    return fail(Code::kInvalid, "block id outside the arena");
  }
  return {};
}

}  // namespace shoal::kernels
