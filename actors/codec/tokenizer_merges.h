// The merge list of a byte-pair encoding, and the encoder that follows its definition literally.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace shoal {

// The encoders' own number of a piece: 0-255 the bytes, then products of merges in the order of
// their first merge. Below kSymbolsMax - 1, so that two symbols and a rank fit 64 bits.
using Symbol = std::uint32_t;
inline constexpr std::uint32_t kSymbolBits = 21;
inline constexpr Symbol kSymbolsMax = 1u << kSymbolBits;
inline constexpr std::uint32_t kNoRank = ~0u;

struct Merge {
  Symbol left = 0;
  Symbol right = 0;
  Symbol product = 0;
};

// Immutable. A merge's rank is its place in the list; a pair occurs once.
class MergeTable {
 public:
  explicit MergeTable(std::vector<Merge> merges);

  // kNoRank when no merge joins the two.
  std::uint32_t rank(Symbol left, Symbol right) const {
    const std::uint64_t key = key_of(left, right);
    const std::uint64_t hash = hash_of(key);
    const std::uint64_t bit = hash >> filter_shift_;
    if ((filter_[bit >> 6] >> (bit & 63) & 1) == 0)
      return kNoRank;
    return find(key, hash);
  }

  const std::vector<Merge>& merges() const { return merges_; }

 private:
  static std::uint64_t key_of(Symbol left, Symbol right) {
    return std::uint64_t{left} << kSymbolBits | right;
  }

  static std::uint64_t hash_of(std::uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

  std::uint32_t find(std::uint64_t key, std::uint64_t hash) const;

  std::vector<Merge> merges_;
  std::vector<std::uint64_t> slots_;  // key and rank; open addressing
  // Bits in front of the slots: most pairs asked for do not exist, and these stay in cache.
  std::vector<std::uint64_t> filter_;
  std::uint32_t slot_shift_ = 0;
  std::uint32_t filter_shift_ = 0;
};

// Joins the pair of the lowest rank, leftmost first, until none is left. Exact for every merge
// list; O(n log n). Appends.
class RankEncoder {
 public:
  explicit RankEncoder(const MergeTable& table) : table_(table) {}

  void encode(std::string_view piece, std::vector<Symbol>& out);

 private:
  struct Node {
    Symbol symbol;
    std::uint32_t previous;
    std::uint32_t next;
  };

  void offer(std::uint32_t left);
  void join(std::uint32_t left, Symbol product);

  const MergeTable& table_;
  std::vector<Node> nodes_;
  // Rank and position of the left node; stale entries are skipped when they surface.
  std::vector<std::uint64_t> heap_;
};

}  // namespace shoal
