// Encodes a piece in linear time: longest match first, back where two neighbours do not belong.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "actors/codec/tokenizer_merges.h"
#include "actors/codec/tokenizer_trie.h"

namespace shoal {

// Immutable. Exact because a sequence of symbols is what the merges make of its bytes if and only
// if each two neighbours are what the merges make of theirs, and because no text has two such
// sequences. So the symbols so far are always those of the text so far, and a position that failed
// as a boundary once is never tried again: that bounds the time, for any text.
class BacktrackEncoder {
 public:
  // Reused from piece to piece, by one thread.
  struct Scratch {
    std::vector<std::uint64_t> dead;  // bit per position that cannot be a boundary
  };

  // Whether the reasoning above holds: each symbol is the product of one merge, of parts older than
  // itself. The caller makes sure that every symbol's bytes encode to that symbol.
  static bool fits(const MergeTable& table);

  // `symbol_bytes` by symbol; needed during construction only. `table` must outlive this.
  BacktrackEncoder(const MergeTable& table, const std::vector<std::string_view>& symbol_bytes);

  // Appends to `out`.
  void encode(std::string_view piece, Scratch& scratch, std::vector<Symbol>& out) const;

 private:
  struct SymbolData {  // a quarter of a cache line
    Symbol left;       // the parts of a product
    Symbol right;
    Symbol shorter;  // the longest symbol that is a proper prefix of this one; of a byte kNoSymbol
    std::uint32_t size;
  };

  bool compatible(Symbol left, Symbol right) const;

  const MergeTable& table_;
  ByteTrie trie_;
  std::vector<SymbolData> symbols_;
};

}  // namespace shoal
