// Finds the token of a whole short piece in one probe: most pieces of real text are one token.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/ids.h"

namespace shoal {

// Immutable; pieces of 1 to 15 bytes, each at most once.
class PieceMap {
 public:
  static constexpr std::size_t kLongest = 15;
  static constexpr TokenId kNone = -1;

  explicit PieceMap(const std::vector<std::pair<std::string_view, TokenId>>& pieces);

  // The piece padded with zeros; the last byte holds its length.
  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    friend bool operator==(const Key&, const Key&) = default;
  };

  // A look-up in two halves: the table is larger than the near caches, so the caller starts several
  // before it ends the first.
  struct Probe {
    Key key;
    std::size_t slot = 0;
  };

  // `text_end` bounds the readable bytes behind the piece: with 16 of them the key is loaded at
  // once.
  Probe start(std::string_view piece, const char* text_end) const {
    const Key key = key_of(piece, text_end);
    const std::size_t slot = hash_of(key) >> shift_;
    __builtin_prefetch(&slots_[slot]);
    return {key, slot};
  }

  TokenId finish(Probe probe) const {
    for (std::size_t slot = probe.slot;; slot = (slot + 1) & (slots_.size() - 1)) {
      const Slot& at = slots_[slot];
      if (at.key == probe.key || at.token == kNone)
        return at.token;
    }
  }

 private:
  struct alignas(32) Slot {  // never across two cache lines
    Key key;
    TokenId token = kNone;
  };

  static Key key_of(std::string_view piece, const char* text_end) {
    Key key;
    const std::size_t size = piece.size();
    if (text_end - piece.data() >= 16) {
      std::memcpy(&key, piece.data(), 16);
      constexpr std::uint64_t kAll = ~std::uint64_t{0};
      key.low &= size >= 8 ? kAll : kAll >> (64 - 8 * size);
      key.high = size <= 8 ? 0 : key.high & kAll >> (128 - 8 * size);
    } else {
      std::memcpy(&key, piece.data(), size);
    }
    key.high |= std::uint64_t{size} << 56;
    return key;
  }

  static std::uint64_t hash_of(Key key) {
    const std::uint64_t mixed =
        key.low * 0x9E3779B97F4A7C15u ^ std::rotl(key.high * 0xC2B2AE3D27D4EB4Fu, 31);
    return (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u;
  }

  std::vector<Slot> slots_;
  std::uint32_t shift_ = 0;
};

// The key is loaded as two words in the machine's order.
static_assert(std::endian::native == std::endian::little);

}  // namespace shoal
