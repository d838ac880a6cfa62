// What a KV record and its key promise: equal inputs give equal keys, and whatever is damaged or
// another's never reads as the block that was asked for.
#include "schemas/kv_record.h"

#include <doctest/doctest.h>
#include <set>
#include <string>

#include "schemas/checksum.h"

namespace shoal {
namespace {

constexpr std::size_t kPayload = 5'000;  // not a multiple of anything: the record has padding

struct Sample {
  KvBlock block;
  KvWanted wanted;
  std::vector<std::byte> payload;
  std::vector<std::byte> record;
};

Sample make_sample() {
  Sample sample;
  for (int i = 0; i < kBlockTokens; ++i) {
    sample.block.tokens[static_cast<std::size_t>(i)] = 1'000 + i;
  }
  sample.block.parent = root_key({"model", "weights", "layout", "tokenizer", "tenant"});
  sample.block.key = next_key(sample.block.parent, sample.block.tokens);
  sample.block.number = 7;
  sample.block.layout = text_digest("layout");
  sample.block.numeric = text_digest("numeric");
  sample.block.writer = IncarnationId{0x1122334455667788};
  sample.block.provenance = Provenance::kBounded;
  sample.block.ttl = TtlClass::kPinned;
  for (std::size_t i = 0; i < kPayload; ++i) {
    sample.payload.push_back(static_cast<std::byte>(i * 7));
  }
  sample.record = make_kv_record(sample.block, sample.payload);
  sample.wanted = {sample.block.key, sample.block.parent, sample.block.layout};
  return sample;
}

bool is_corrupt(std::span<const std::byte> record, const KvWanted& wanted) {
  const auto read = read_kv_record(record, wanted);
  return !read && read.error().code == Code::kCorrupt && !read.error().message.empty();
}

TEST_CASE("a record gives back its header and its bytes") {
  const Sample sample = make_sample();
  CHECK(static_cast<std::int64_t>(sample.record.size()) ==
        kv_record_bytes(static_cast<std::int64_t>(kPayload)));
  CHECK(sample.record.size() % kKvRecordAlign == 0);
  const auto read = read_kv_record(sample.record, sample.wanted);
  REQUIRE(read.has_value());
  CHECK(std::vector(read->payload.begin(), read->payload.end()) == sample.payload);
  CHECK(read->block.key == sample.block.key);
  CHECK(read->block.parent == sample.block.parent);
  CHECK(read->block.number == 7);
  CHECK(read->block.numeric == sample.block.numeric);
  CHECK(read->block.writer == sample.block.writer);
  CHECK(read->block.provenance == Provenance::kBounded);
  CHECK(read->block.ttl == TtlClass::kPinned);
  CHECK(read->block.tokens == sample.block.tokens);
  CHECK(read->block.payload_crc == sample.block.payload_crc);
}

TEST_CASE("what the checksums of records take is counted, each byte once") {
  const Sample sample = make_sample();
  const ChecksumWork before = checksum_work();
  REQUIRE(read_kv_record(sample.record, sample.wanted).has_value());
  const ChecksumWork after = checksum_work();
  CHECK(after.bytes - before.bytes == kKvHeaderBytes + static_cast<std::int64_t>(kPayload));
  const std::int64_t began = processor_ticks();
  if (processor_ticks() > began) {  // this processor has a counter
    CHECK(after.ticks > before.ticks);
  }
}

TEST_CASE("an empty payload and one that fills its pages are records") {
  Sample sample = make_sample();
  for (const std::int64_t size : {std::int64_t{0}, kKvRecordAlign - kKvHeaderBytes}) {
    sample.payload.resize(static_cast<std::size_t>(size));
    const auto record = make_kv_record(sample.block, sample.payload);
    CHECK(static_cast<std::int64_t>(record.size()) == kKvRecordAlign);
    CHECK(read_kv_record(record, sample.wanted)->payload.size() == sample.payload.size());
  }
}

TEST_CASE("a record with any single bit or byte changed is corrupt") {
  Sample sample = make_sample();
  for (std::size_t at = 0; at < sample.record.size(); ++at) {
    for (const std::byte flip : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      sample.record[at] ^= flip;
      const bool corrupt = is_corrupt(sample.record, sample.wanted);
      sample.record[at] ^= flip;
      if (!corrupt) {
        FAIL("byte " << at << " changed by " << std::to_integer<int>(flip) << " was not noticed");
      }
    }
  }
  CHECK_FALSE(is_corrupt(sample.record, sample.wanted));
}

TEST_CASE("a record cut anywhere, or with bytes behind it, is corrupt") {
  const Sample sample = make_sample();
  for (std::size_t size = 0; size < sample.record.size(); ++size) {
    if (!is_corrupt(std::span(sample.record).first(size), sample.wanted)) {
      FAIL("cut to " << size << " bytes was not noticed");
    }
  }
  std::vector<std::byte> longer = sample.record;
  longer.resize(longer.size() + kKvRecordAlign);
  CHECK(is_corrupt(longer, sample.wanted));
}

TEST_CASE("a record is not the block of another key, parent or layout, whichever byte differs") {
  const Sample sample = make_sample();
  for (std::size_t at = 0; at < sample.wanted.key.bytes.size(); ++at) {
    KvWanted other = sample.wanted;
    other.key.bytes[at] ^= std::byte{1};
    CHECK(is_corrupt(sample.record, other));
    other = sample.wanted;
    other.parent.bytes[at] ^= std::byte{1};
    CHECK(is_corrupt(sample.record, other));
  }
  for (int bit = 0; bit < 64; ++bit) {
    KvWanted other = sample.wanted;
    other.layout ^= std::uint64_t{1} << bit;
    CHECK(is_corrupt(sample.record, other));
  }
}

TEST_CASE("a well-formed record under a key that its tokens do not have is corrupt") {
  Sample sample = make_sample();
  sample.block.tokens[5] += 1;
  const auto forged = make_kv_record(sample.block, sample.payload);
  REQUIRE(read_kv_header(forged).has_value());
  CHECK(is_corrupt(forged, sample.wanted));
}

TEST_CASE("a header is read without its payload, and a damaged one is not") {
  const Sample sample = make_sample();
  const auto header = std::span(sample.record).first(kKvHeaderBytes);
  CHECK(read_kv_header(header)->key == sample.block.key);
  CHECK(read_kv_header(header.first(kKvHeaderBytes - 1)).error().code == Code::kCorrupt);
}

TEST_CASE("a key depends on every part of the identity, and parts do not run into each other") {
  const KvIdentity base{"m", "w", "l", "t", "s"};
  std::set<BlockKey> keys{root_key(base)};
  for (std::string KvIdentity::*part : {&KvIdentity::model,
                                        &KvIdentity::weights,
                                        &KvIdentity::layout,
                                        &KvIdentity::tokenizer,
                                        &KvIdentity::tenant}) {
    KvIdentity other = base;
    other.*part += "x";
    keys.insert(root_key(other));
    other.*part = "";
    keys.insert(root_key(other));
  }
  keys.insert(root_key({"mw", "", "l", "t", "s"}));
  keys.insert(root_key({"", "mw", "l", "t", "s"}));
  CHECK(keys.size() == 13);
  CHECK(root_key(base) == root_key(base));
}

TEST_CASE("a key depends on every token before the block's end and on nothing behind it") {
  std::vector<TokenId> tokens(3 * kBlockTokens + 17);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(i);
  }
  const BlockKey root = root_key({});
  const auto keys = block_keys(root, tokens);
  REQUIRE(keys.size() == 3);
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    auto changed = tokens;
    changed[at] += 1;
    const auto others = block_keys(root, changed);
    for (std::size_t block = 0; block < keys.size(); ++block) {
      const bool is_behind = at >= (block + 1) * kBlockTokens;
      if ((keys[block] == others[block]) != is_behind) {
        FAIL("token " << at << ", block " << block);
      }
    }
  }
  CHECK(to_string(keys[0]).size() == 64);
}

}  // namespace
}  // namespace shoal
