// Layout of a batch: 48 bytes of header, then rows, slots and weights of the pairs, codes, scales.
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "schemas/byte_fields.h"
#include "transport/expert_exchange.h"

namespace shoal::transport {
namespace {

constexpr std::uint32_t kMagic = 0x31425853;  // "SXB1"
constexpr std::int64_t kHeader = 48;
constexpr std::int64_t kGroup = 32;  // columns of a scale

enum Field : std::size_t {
  kMagicAt = 0,
  kShardAt = 4,
  kDispatchAt = 8,
  kPartAt = 16,
  kLayerAt = 20,
  kEpochAt = 24,
  kRowsAt = 32,
  kPairsAt = 36,
  kDimAt = 40,
};

std::int64_t pairs_bytes(const ExpertBatchShape& shape) {
  return shape.pairs * 4;
}

std::int64_t codes_at(const ExpertBatchShape& shape) {
  return kHeader + 3 * pairs_bytes(shape);
}

std::int64_t scales_at(const ExpertBatchShape& shape) {
  return codes_at(shape) + shape.rows * shape.dim;
}

std::int64_t size_of(const ExpertBatchShape& shape) {
  return scales_at(shape) + shape.rows * shape.dim / kGroup;
}

void write_header(const ExpertBatchShape& shape, std::span<std::byte> out) {
  put_field(out, kMagicAt, kMagic);
  put_field(out, kShardAt, shape.shard);
  put_field(out, kLayerAt, static_cast<std::int32_t>(shape.layer));
  put_field(out, kEpochAt, shape.epoch.value);
  put_field(out, kRowsAt, static_cast<std::uint32_t>(shape.rows));
  put_field(out, kPairsAt, static_cast<std::uint32_t>(shape.pairs));
  put_field(out, kDimAt, static_cast<std::uint32_t>(shape.dim));
}

ExpertBatchShape read_header(std::span<const std::byte> in) {
  return {.shard = get_field<std::uint32_t>(in, kShardAt),
          .epoch = EpochId{get_field<std::uint64_t>(in, kEpochAt)},
          .layer = get_field<std::int32_t>(in, kLayerAt),
          .dim = get_field<std::uint32_t>(in, kDimAt),
          .rows = get_field<std::uint32_t>(in, kRowsAt),
          .pairs = get_field<std::uint32_t>(in, kPairsAt)};
}

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(Code::kCorrupt, "batch of rows for experts: " + what);
}

}  // namespace

ExpertBatch::ExpertBatch(const ExpertBatchShape& shape,
                         const std::function<void(const Fields&)>& fill)
    : shape_(shape),
      own_(std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size_of(shape)))) {
  write_header(shape, *own_);
  bytes_ = own_;
  const std::int64_t pairs = pairs_bytes(shape);
  std::byte* const fields = own_->data() + kHeader;
  auto* codes = reinterpret_cast<std::uint8_t*>(own_->data());
  fill({.row = reinterpret_cast<std::int32_t*>(fields),
        .slot = reinterpret_cast<std::int32_t*>(fields + pairs),
        .weight = reinterpret_cast<float*>(fields + 2 * pairs),
        .codes = codes + codes_at(shape),
        .scales = codes + scales_at(shape)});
}

Result<ExpertBatch> ExpertBatch::read(Buffer bytes) {
  static_assert(std::endian::native == std::endian::little);
  if (static_cast<std::int64_t>(bytes->size()) < kHeader ||
      get_field<std::uint32_t>(*bytes, kMagicAt) != kMagic) {
    return corrupt("it has no header of one");
  }
  ExpertBatch batch;
  batch.shape_ = read_header(*bytes);
  const ExpertBatchShape& shape = batch.shape_;
  // Each below 2^32: a product of two fits, and one of more than the bytes is refused before the
  // sum is made.
  const auto size = static_cast<std::int64_t>(bytes->size());
  if (shape.dim == 0 || shape.dim % kGroup != 0 || shape.rows > size / shape.dim ||
      shape.pairs > size / 12 || size_of(shape) != size) {
    return corrupt("its length does not fit what it announces");
  }
  batch.bytes_ = std::move(bytes);
  for (std::int64_t i = 0; i < shape.pairs; ++i) {
    if (batch.row()[i] < 0 || batch.row()[i] >= shape.rows || batch.slot()[i] < 0) {
      return corrupt("pair " + std::to_string(i) + " is of no row or no slot");
    }
  }
  return batch;
}

const std::int32_t* ExpertBatch::row() const {
  return reinterpret_cast<const std::int32_t*>(at(kHeader));
}

const std::int32_t* ExpertBatch::slot() const {
  return row() + shape_.pairs;
}

const float* ExpertBatch::weight() const {
  return reinterpret_cast<const float*>(at(kHeader + 2 * pairs_bytes(shape_)));
}

const std::uint8_t* ExpertBatch::codes() const {
  return reinterpret_cast<const std::uint8_t*>(at(codes_at(shape_)));
}

const std::uint8_t* ExpertBatch::scales() const {
  return reinterpret_cast<const std::uint8_t*>(at(scales_at(shape_)));
}

Buffer ExpertBatch::stamped(std::uint64_t dispatch, std::uint32_t part) const {
  put_field(std::span(*own_), kDispatchAt, dispatch);
  put_field(std::span(*own_), kPartAt, part);
  return bytes_;
}

std::uint64_t ExpertBatch::dispatch() const {
  return get_field<std::uint64_t>(*bytes_, kDispatchAt);
}

std::uint32_t ExpertBatch::part() const {
  return get_field<std::uint32_t>(*bytes_, kPartAt);
}

}  // namespace shoal::transport
