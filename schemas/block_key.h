// Names of KV blocks: a chain of SHA-256 over what the numbers depend on (the model, its weights,
// the bytes' layout, the tokenizer, whose tokens they are) and then over all tokens up to the
// block's end. Equal keys: interchangeable KV, up to the arithmetic (schemas/kv_record.h).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct BlockKey {
  std::array<std::byte, 32> bytes{};

  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

// What must be equal for two processes to share KV. Any text; the parts never run into each other.
struct KvIdentity {
  std::string model;      // digest of its configuration
  std::string weights;    // digest of what identifies its weights
  std::string layout;     // of a block's bytes, in words
  std::string tokenizer;  // digest of its files
  std::string tenant;     // salt of the API key; empty: nobody's
};

// Of position 0: the parent of every first block.
BlockKey root_key(const KvIdentity& identity);

// Of the block whose kBlockTokens tokens follow `parent`'s.
BlockKey next_key(const BlockKey& parent, std::span<const TokenId, kBlockTokens> tokens);

// Of all full blocks of a sequence.
std::vector<BlockKey> block_keys(const BlockKey& root, std::span<const TokenId> tokens);

// 64 digits.
std::string to_string(const BlockKey& key);

// Of a text that two sides must agree on and only compare.
std::uint64_t text_digest(std::string_view text);

}  // namespace shoal

template <>
struct std::hash<shoal::BlockKey> {
  std::size_t operator()(const shoal::BlockKey& key) const noexcept {
    std::size_t first = 0;  // a key is as good as random already
    std::memcpy(&first, key.bytes.data(), sizeof first);
    return first;
  }
};
