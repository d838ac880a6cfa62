// The search over positions, and the test whether two neighbouring symbols stay apart.
#include "actors/codec/tokenizer_backtrack.h"

#include <cstddef>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr Symbol kNoSymbol = ~0u;
constexpr Symbol kFirstProduct = 256;

}  // namespace

bool BacktrackEncoder::fits(const MergeTable& table) {
  for (std::size_t rank = 0; rank < table.merges().size(); ++rank) {
    const Merge& merge = table.merges()[rank];
    const Symbol product = kFirstProduct + static_cast<Symbol>(rank);
    if (merge.product != product || merge.left >= product || merge.right >= product)
      return false;
  }
  return true;
}

BacktrackEncoder::BacktrackEncoder(const MergeTable& table,
                                   const std::vector<std::string_view>& symbol_bytes)
    : table_(table) {
  std::vector<ByteTrie::Entry> entries;
  entries.reserve(symbol_bytes.size());
  for (const std::string_view bytes : symbol_bytes) {
    entries.push_back({bytes, static_cast<std::uint32_t>(entries.size())});
  }
  trie_ = ByteTrie(std::move(entries));
  symbols_.reserve(symbol_bytes.size());
  for (const std::string_view bytes : symbol_bytes) {
    SymbolData data{0, 0, kNoSymbol, static_cast<std::uint32_t>(bytes.size())};
    if (const std::size_t symbol = symbols_.size(); symbol >= kFirstProduct) {
      data.left = table.merges()[symbol - kFirstProduct].left;
      data.right = table.merges()[symbol - kFirstProduct].right;
      data.shorter = trie_.longest(bytes.substr(0, bytes.size() - 1));
    }
    symbols_.push_back(data);
  }
}

// Undoes the merges inside both symbols from the newest to the oldest and looks at each pair that
// ever met across the joint: if an older merge than the next to be undone would have joined it, the
// two symbols would not have come about. A merge's rank grows with its product, so ranks are
// compared as products.
bool BacktrackEncoder::compatible(Symbol left, Symbol right) const {
  Symbol limit = kNoSymbol;
  for (;;) {
    const std::uint32_t rank = table_.rank(left, right);
    if (rank != kNoRank && rank + kFirstProduct < limit)
      return false;
    // Of equal symbols the left one came about first, so the right one is undone first.
    const bool undo_left = left > right;
    const Symbol newest = undo_left ? left : right;
    if (newest < kFirstProduct)
      return true;
    if (undo_left) {
      limit = left;
      left = symbols_[left].right;
    } else {
      limit = right + 1;
      right = symbols_[right].left;
    }
  }
}

void BacktrackEncoder::encode(std::string_view piece,
                              Scratch& scratch,
                              std::vector<Symbol>& out) const {
  const std::size_t base = out.size();
  scratch.dead.assign(piece.size() / 64 + 1, 0);
  const auto is_dead = [&](std::size_t at) {
    return (scratch.dead[at >> 6] >> (at & 63) & 1) != 0;
  };
  std::size_t at = 0;
  Symbol candidate = piece.empty() ? kNoSymbol : trie_.longest(piece);
  while (at < piece.size()) {
    const bool first = out.size() == base;
    while (candidate != kNoSymbol && (is_dead(at + symbols_[candidate].size) ||
                                      (!first && !compatible(out.back(), candidate)))) {
      candidate = symbols_[candidate].shorter;
    }
    if (candidate != kNoSymbol) {
      out.push_back(candidate);
      at += symbols_[candidate].size;
      if (at < piece.size())
        candidate = trie_.longest(piece.substr(at));
      continue;
    }
    // No symbol may follow here. Taking the last one back retries it, and its end being dead now,
    // its next shorter prefix.
    CHECK(!first);
    scratch.dead[at >> 6] |= std::uint64_t{1} << (at & 63);
    candidate = out.back();
    out.pop_back();
    at -= symbols_[candidate].size;
  }
}

}  // namespace shoal
